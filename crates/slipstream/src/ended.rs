//! How a replica's or relay's process ends with a failure.
//!
//! In: the failure. Out: its exit code and hint, its text where the log has not said it. Never here: a line of the log.

use std::path::Path;

use replica::{Exit, Failure};

/// The result of a replica or relay in this data folder. A service manager has to tell the failure of a first start
/// from others: a source that was there before comes back.
pub(crate) fn of(data: &Path, run: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let is_first = !replica::knows_source(data);
    run().map_err(|failure| if is_first { of_start(failure) } else { failure })
}

/// The same of a check, whose exit code says no more than that the source cannot be followed.
pub(crate) fn of_check(failure: Failure) -> Failure {
    let exit = failure.exit;
    Failure { exit, ..of_start(failure) }
}

fn of_start(failure: Failure) -> Failure {
    let exit = failure.exit.of_start(failure.number);
    let hint = match failure.number.filter(|_| exit == Exit::SourceNotReached) {
        Some(2026) => {
            "ssl-mode = VERIFY_CA with source-ssl-ca = FILE, the source's ca.pem, verifies a source that made its \
                       certificate itself; ssl-mode = REQUIRED verifies nothing"
        }
        Some(2002..=2005) => "correct the source's host and port, or try again once it runs",
        Some(_) => "correct user and password in the option file or at the source, then try again",
        None => return Failure { exit, ..failure },
    };
    let hint = failure.hint.or_else(|| Some(hint.to_owned()));
    Failure { exit, hint, ..failure }
}

/// The failure with which the process ends, whose text is not printed twice on stderr.
pub(crate) fn shown(failure: Failure, is_printed: bool) -> Failure {
    if is_printed { Failure { text: String::new(), ..failure } } else { failure }
}
