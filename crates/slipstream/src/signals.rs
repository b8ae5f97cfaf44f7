//! Signals as flags that the main loop checks. TERM and INT request a stop; a second INT ends the process at once; HUP
//! reopens the log file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use replica::{Exit, Failure};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

/// Requests made by signals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signals {
    stop: Arc<AtomicBool>,
    reopen: Arc<AtomicBool>,
}

impl Signals {
    /// Installs the handlers.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn install() -> Result<Signals, Failure> {
        let signals = Signals::default();
        let install = || -> std::io::Result<()> {
            // Registered first, so that at the first INT it still sees the flag unset.
            flag::register_conditional_shutdown(SIGINT, i32::from(Exit::Error.code()), Arc::clone(&signals.stop))?;
            flag::register(SIGINT, Arc::clone(&signals.stop))?;
            flag::register(SIGTERM, Arc::clone(&signals.stop))?;
            flag::register(SIGHUP, Arc::clone(&signals.reopen))?;
            Ok(())
        };
        install().map_err(|error| Failure::io("signal handlers", &error))?;
        Ok(signals)
    }

    /// True if a stop was requested.
    #[must_use]
    pub(crate) fn stop_asked(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// The flag itself, for stages that check it themselves.
    #[must_use]
    pub(crate) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// True if the log must be reopened; returned once per HUP.
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
