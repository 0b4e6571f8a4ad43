//! Processes that take locks and permits: what they are told, and what they write down.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, SystemTime},
};

use ferrisson_testkit::history::Interval;
use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::real::PATIENCE;

/// What a worker does.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Job {
    /// The server.
    pub url: String,
    /// The object.
    pub name: String,
    /// Its kind.
    pub object: Object,
    /// The watchdog lease, in ms.
    pub watchdog_ms: u64,
    /// The poll interval, in ms.
    pub poll_ms: u64,
    /// Where claims are written.
    pub claims: PathBuf,
    /// Who gives the orders.
    pub orders: Orders,
}

/// What is taken.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub enum Object {
    /// A reentrant lock.
    Lock,
    /// A plain lock.
    Plain,
    /// One or two permits of a semaphore.
    Permits,
}

/// Who decides when something is taken and given back.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub enum Orders {
    /// Tasks that take it again and again, or as often as `rounds` says, until the standard input
    /// ends.
    Compete {
        /// How many tasks.
        tasks: u64,
        /// How often each of them takes it.
        rounds: u64,
        /// The longest time for which it is held, in ms.
        hold_ms: u64,
        /// The start of all randomness.
        seed: u64,
        /// A file with a number that each round reads and, some time later, writes one higher.
        counter: Option<PathBuf>,
    },
    /// Lines on the standard input: `take`, and `give` back. Between them a mark is written every
    /// millisecond as long as it is held. The answers: `asking`, `held <owner> <µs>`,
    /// `lost <reason>`, `given`, `error <text>`.
    Listen,
}

/// Microseconds since 1970: comparable between the processes of one machine.
///
/// # Panics
/// The clock is before 1970.
#[must_use]
pub fn now() -> u64 {
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("it is after 1970");
    u64::try_from(time.as_micros()).expect("it is before the year 500000")
}

/// A running worker. Dropping it kills the process, stopped or not.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Lines<BufReader<ChildStdout>>,
    pid: Pid,
}

impl Worker {
    /// Starts a process of the program `worker`.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn start(program: &str, job: &Job) -> Self {
        let job = serde_json::to_string(job).expect("a job can be written");
        let mut child = Command::new(program)
            .arg(job)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the worker starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("it is a pipe");
        let pid = child.id().expect("nobody has waited for it").try_into().expect("it is a pid");
        Self { child, stdin, stdout: BufReader::new(stdout).lines(), pid: Pid::from_raw(pid) }
    }

    /// Sends an order.
    ///
    /// # Panics
    /// The worker is gone.
    pub async fn order(&mut self, order: &str) {
        let stdin = self.stdin.as_mut().expect("it was not told to end");
        let sent = stdin.write_all(format!("{order}\n").as_bytes()).await;
        sent.expect("the worker listens");
    }

    /// The words of the next answer, which has to begin with `word`.
    ///
    /// # Panics
    /// There is another answer, or none.
    pub async fn answer(&mut self, word: &str) -> Vec<String> {
        let line = timeout(PATIENCE, self.stdout.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no answer, instead of {word}"));
        let line = line.expect("the worker writes text").expect("the worker runs");
        let words: Vec<_> = line.split(' ').map(str::to_owned).collect();
        assert_eq!(words[0], word, "{line}");
        words
    }

    /// Stops the process (`SIGSTOP`).
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets it go on (`SIGCONT`).
    pub fn cont(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills it (`SIGKILL`); returns when it is gone.
    ///
    /// # Panics
    /// It cannot be killed.
    pub async fn kill(mut self) {
        self.child.kill().await.expect("it can be killed");
    }

    /// Tells it to end and waits until it has.
    ///
    /// # Panics
    /// It does not end, or not well.
    pub async fn end(mut self) {
        drop(self.stdin.take());
        let status = timeout(PATIENCE, self.child.wait()).await.expect("it ends").expect("it ran");
        assert!(status.success(), "{status}");
    }

    fn signal(&self, signal: Signal) {
        signal::kill(self.pid, signal).expect("the process is ours and there");
    }
}

/// What workers have written down.
#[derive(Debug, Default)]
pub struct Record {
    /// The times for which workers believed to hold something. Of one that was killed, up to the
    /// last moment of which it is known.
    pub claims: Vec<Interval>,
    /// How often a holder was told of a loss.
    pub losses: usize,
    /// How often the counter was written.
    pub writes: u64,
}

impl Record {
    /// Reads a file of claims: a letter, an owner, a moment in µs, and for `B` the permits.
    ///
    /// # Panics
    /// There is none, or it is not understood.
    #[must_use]
    pub fn read(path: &Path, name: &str) -> Self {
        let text = fs::read_to_string(path).expect("workers have written something");
        let mut record = Self::default();
        let mut claims: BTreeMap<&str, Interval> = BTreeMap::new();
        // The last line of a killed worker can be cut off, but only at its end.
        for line in text.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let &[letter, owner, at, ref rest @ ..] = &words[..] else { continue };
            let at = Duration::from_micros(at.parse().expect("a moment"));
            if letter == "B" {
                let permits = rest[0].parse().expect("a number of permits");
                let (name, owner_text) = (name.to_owned(), owner.to_owned());
                let claim = Interval { name, owner: owner_text, permits, from: at, to: at };
                assert!(claims.insert(owner, claim).is_none(), "{owner} has begun twice");
            } else if letter == "L" {
                // A loss does not lengthen the claim.
                record.losses += 1;
            } else {
                claims.get_mut(owner).expect("it has begun").to = at;
                record.writes += u64::from(letter == "W");
            }
        }
        record.claims = claims.into_values().collect();
        record
    }
}
