//! The benchmark: ratios of ferrisson to the bare commands, in one run, on one server of its own.
//!
//! Every row is measured in rounds in which the rivals take turns, and a ratio is the median of
//! the ratios of the rounds: the machine may be busy, but it is as busy for one as for the other.

mod bare;
mod report;
mod rows;
mod worker;

use std::{error::Error, time::Duration};

use clap::{Parser, Subcommand};

/// How much is measured.
#[derive(Clone, Debug, Parser)]
struct Args {
    /// Rounds of each row.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Time of one measurement in milliseconds.
    #[arg(long, default_value_t = 400)]
    millis: u64,
    #[command(subcommand)]
    mode: Option<Mode>,
}

#[derive(Clone, Debug, Subcommand)]
enum Mode {
    /// One of several processes on one name; started by the benchmark itself.
    #[command(hide = true)]
    Worker(worker::Args),
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let args = Args::parse();
    match args.mode {
        Some(Mode::Worker(args)) => worker::run(args).await,
        None => rows::run(args.rounds, Duration::from_millis(args.millis)).await,
    }
}
