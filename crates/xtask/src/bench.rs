//! The benchmark.

use clap::Args;

use crate::{
    redis,
    tools::{Result, cargo, run as execute},
};

/// What the benchmark program is told.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Passed on: `--rounds N`, `--millis N`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Builds it for speed, and runs it on a server of its own.
pub(crate) fn run(options: &Options) -> Result {
    let server = redis::ensure(true)?;
    let program = ["run", "--release", "--package", "ferrisson-bench", "--"];
    let mut command = cargo(program.into_iter().chain(options.args.iter().map(String::as_str)));
    execute(command.env("FERRISSON_REDIS_SERVER", server))
}
