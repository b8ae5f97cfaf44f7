//! Signals as flags that the main loop looks at. TERM and INT ask to stop; a second INT ends the process at once; HUP
//! opens the log files again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use replica::{Exit, Failure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// What signals have asked for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    reopen: Arc<AtomicBool>,
}

impl Signals {
    /// Puts the handlers in place.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn install() -> Result<Signals, Failure> {
        let signals = Signals::default();
        let install = || -> std::io::Result<()> {
            // Registered first, so that at the first INT it still sees the flag down.
            flag::register_conditional_shutdown(SIGINT, i32::from(Exit::Error.code()), Arc::clone(&signals.stop))?;
            flag::register(SIGINT, Arc::clone(&signals.stop))?;
            flag::register(SIGTERM, Arc::clone(&signals.stop))?;
            flag::register(SIGHUP, Arc::clone(&signals.reopen))?;
            Ok(())
        };
        install().map_err(|error| Failure::io("signal handlers", &error))?;
        Ok(signals)
    }

    /// Whether to stop.
    #[must_use]
    pub(crate) fn stop_asked(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// The flag itself, for stages that look at it on their own.
    #[must_use]
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether to open the log again; asked once for each HUP.
    #[must_use]
    pub(crate) fn take_reopen(&self) -> bool {
        self.reopen.swap(false, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_raise_flags() {
        let signals = Signals::install().unwrap();
        assert!(!signals.stop_asked() && !signals.take_reopen());
        signal_hook::low_level::raise(SIGHUP).unwrap();
        assert!(signals.take_reopen() && !signals.take_reopen());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(signals.stop_asked());
    }
}
