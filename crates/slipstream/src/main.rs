//! The program: commands of this crate's library, and the lab's that measure it.

#[cfg(all(feature = "jemalloc", feature = "mimalloc"))]
compile_error!("one allocator at most: jemalloc or mimalloc");

#[cfg(all(feature = "jemalloc", not(feature = "mimalloc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[cfg(all(feature = "mimalloc", not(feature = "jemalloc")))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    slipstream::run::run(std::env::args_os(), &slipstream::lab::lab())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_whole_command_line_is_sound_and_documented() {
        let mut command = slipstream::run::command(&slipstream::lab::lab());
        command.build();
        command.clone().debug_assert();
        fn walk(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no text", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{}: {} has no text", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(walk);
        }
        walk(&command);
    }
}
