//! The tasks of this workspace: `cargo xtask test` and others.

mod bench;
mod check;
mod ci;
mod mutants;
mod redis;
mod servers;
mod test;
mod tools;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a fresh machine with nothing but Rust needs to work on ferrisson.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Run the whole test suite; find or install a Redis server first.
    Test(test::Options),
    /// Check format, lints, features and documentation.
    Check,
    /// Break the code in many ways, and see that the tests find each.
    Mutants(mutants::Options),
    /// Measure speed against the bare commands, on a server of its own.
    Bench(bench::Options),
    /// Do all that the gate does.
    Ci(ci::Options),
}

fn main() -> ExitCode {
    let result = match Cli::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Check => check::run(),
        Task::Mutants(options) => mutants::run(&options),
        Task::Bench(options) => bench::run(&options),
        Task::Ci(options) => ci::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
