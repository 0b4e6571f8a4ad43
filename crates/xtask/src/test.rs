//! The test suite.

use clap::Args;

use crate::{
    redis,
    servers::{self, Choice},
    tools::{self, Result, cargo},
};

/// What to test, and on what.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Afterwards run the conformance suite on these servers too; they are fetched with pip.
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    servers: Vec<Choice>,
    /// Fail, rather than install a server, if there is none.
    #[arg(long)]
    no_install: bool,
    /// Arguments for `cargo test`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    cargo: Vec<String>,
}

/// Runs all tests on a server of this machine, then conformance on the chosen ones.
pub(crate) fn run(options: &Options) -> Result {
    suite(!options.no_install, &options.cargo)?;
    if options.servers.is_empty() { Ok(()) } else { servers::run(&options.servers) }
}

/// Runs all tests.
pub(crate) fn suite(install: bool, args: &[String]) -> Result {
    let server = redis::ensure(install)?;
    println!("Testing on {} {}", server.display(), redis::version(&server)?);
    let mut command = cargo(["test", "--workspace", "--all-features"]);
    tools::run(command.args(args).env(redis::VARIABLE, &server))
}
