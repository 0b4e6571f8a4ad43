//! One of several processes that want the same lock.

use std::{
    error::Error,
    io::{BufRead, Write},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// What the worker does.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(long)]
    url: String,
    #[arg(long)]
    name: String,
    /// How often it takes the lock.
    #[arg(long)]
    turns: usize,
    /// Time between taking and releasing, in microseconds.
    #[arg(long)]
    hold_micros: u64,
    /// Time between releasing and asking again, in microseconds.
    #[arg(long)]
    pause_micros: u64,
}

/// Prints `ready`, waits for a line, takes the lock `turns` times, and prints a line for each turn:
/// when the lock was there and when its release began, in microseconds of the wall clock, which
/// processes on one machine share.
pub(crate) async fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let client = ferrisson::connect(&args.url).await?;
    let lock = client.lock(args.name);
    client.lock("warm-up").is_locked().await?;
    println!("ready");
    std::io::stdin().lock().read_line(&mut String::new())?;
    let mut turns = Vec::with_capacity(args.turns);
    for _ in 0..args.turns {
        let guard = lock.lock().await?;
        let taken = micros();
        pause(args.hold_micros).await;
        let released = micros();
        guard.unlock().await?;
        turns.push((taken, released));
        pause(args.pause_micros).await;
    }
    let mut out = std::io::stdout().lock();
    for (taken, released) in turns {
        writeln!(out, "{taken} {released}")?;
    }
    out.flush()?;
    client.close().await;
    Ok(())
}

async fn pause(micros: u64) {
    if micros > 0 {
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}

fn micros() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()
}
