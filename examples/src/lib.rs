//! What the examples share: where they run, and where their lines go.

use std::{error::Error, sync::Arc};

pub use clap::Parser;
use ferrisson::{Client, MemoryBackend};

/// Takes the lines of a demo: the terminal, or a test that looks at them.
pub type Say = Arc<dyn Fn(String) + Send + Sync>;

/// The command line of the demos.
#[derive(Debug, Parser)]
pub struct Args {
    /// A server, such as redis://:123@127.0.0.1:6379. Without one: the in-process backend.
    #[arg(long, env = "REDIS_URL", hide_env_values = true)]
    pub url: Option<String>,

    /// Repeats what chance decided; a demo that leaves something to it prints its seed.
    #[arg(long)]
    pub seed: Option<u64>,
}

impl Args {
    /// A client of the server, or of a backend in this process.
    ///
    /// # Errors
    ///
    /// When the server cannot be reached.
    pub async fn client(&self) -> Result<Client, Box<dyn Error>> {
        if let Some(url) = &self.url {
            return Ok(ferrisson::connect(url).await?);
        }
        println!("# in this process; for a server set REDIS_URL or --url");
        Ok(Client::new(MemoryBackend::new()))
    }
}

/// Prints the lines.
#[must_use]
pub fn terminal() -> Say {
    Arc::new(|line| println!("{line}"))
}
