//! The program `slipstream-lab`: every command of the lab but those that measure the program that ships.

use std::process::ExitCode;

use programs::hidden;
use replica::Exit;

fn main() -> ExitCode {
    hidden::from_core_files();
    let arguments = hidden::arguments(std::env::args_os().collect());
    let given = match lab::cli::program().try_get_matches_from(arguments) {
        Ok(given) => given,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code()));
        }
    };
    match lab::cli::run(&given) {
        Ok(()) => Exit::Done.into(),
        Err(failure) => {
            programs::say_why(programs::LAB, &failure);
            failure.exit.into()
        }
    }
}
