//! See the library part of this crate.

fn main() -> std::process::ExitCode {
    slipstream::run::run(std::env::args_os())
}
