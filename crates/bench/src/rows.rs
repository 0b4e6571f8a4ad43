//! The rows.

use std::{
    collections::BTreeMap,
    error::Error,
    future::Future,
    io::{BufRead, BufReader, Write},
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use ferrisson::Client;
use ferrisson_testkit::server::Server;
use hdrhistogram::Histogram;
use tokio::task::JoinSet;

use crate::{
    bare::Bare,
    report::{self, Rate},
};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Runs all rows and prints them.
pub(crate) async fn run(rounds: usize, time: Duration) -> Result<()> {
    let server = Server::start().await;
    let bench = Bench {
        bare: Bare::connect(&server.url()).await?.0,
        client: ferrisson::connect(&server.url()).await?,
        server,
        rounds,
        time,
    };
    println!("# ferrisson benchmark");
    println!("{}", machine());
    println!("{rounds} rounds of {time:?}; a ratio is the median of the ratios of the rounds\n");
    bench.uncontended(1).await?;
    bench.uncontended(64).await?;
    bench.commands_per_pair().await?;
    bench.one_name().await?;
    bench.processes().await?;
    bench.hand_off()?;
    bench.client.close().await;
    Ok(())
}

struct Bench {
    server: Server,
    bare: Bare,
    client: Client,
    rounds: usize,
    time: Duration,
}

impl Bench {
    /// Lock and unlock of names that nobody else wants.
    async fn uncontended(&self, tasks: usize) -> Result<()> {
        let (mut plain, mut reentrant, mut against_hash) = (vec![], vec![], vec![]);
        for _ in 0..self.rounds {
            let bare = self.bare.clone();
            let string = self
                .rate(tasks, move |task| {
                    let (bare, key) = (bare.clone(), format!("bench:bare:{task}"));
                    async move { bare.string_pair(&key, "bench").await.map_err(text) }
                })
                .await?;
            let bare = self.bare.clone();
            let hash = self
                .rate(tasks, move |task| {
                    let (bare, key) = (bare.clone(), format!("bench:hash:{task}"));
                    let channel = format!("redisson_lock__channel:{{{key}}}");
                    async move { bare.hash_pair(&key, &channel, "bench").await.map_err(text) }
                })
                .await?;
            let client = self.client.clone();
            let own_plain = self
                .rate(tasks, move |task| {
                    let lock = client.plain_lock(format!("bench:plain:{task}"));
                    async move { pair(&lock).await }
                })
                .await?;
            let client = self.client.clone();
            let own = self
                .rate(tasks, move |task| {
                    let lock = client.lock(format!("bench:lock:{task}"));
                    async move { pair(&lock).await }
                })
                .await?;
            plain.push((own_plain.per_second(), string.per_second()));
            reentrant.push((own.per_second(), string.per_second()));
            against_hash.push((own.per_second(), hash.per_second()));
        }
        let row = |kind: &str| format!("{kind}, {tasks} task{}", if tasks == 1 { "" } else { "s" });
        report::compared(&row("plain lock+unlock"), "bare SET+script", &plain);
        report::compared(&row("lock+unlock"), "bare SET+script", &reentrant);
        report::compared(&row("lock+unlock"), "bare hash scripts", &against_hash);
        Ok(())
    }

    /// What the server counts for one uncontended pair.
    async fn commands_per_pair(&self) -> Result<()> {
        const PAIRS: u64 = 1000;
        for (kind, lock) in [
            ("plain lock", self.client.plain_lock("bench:count:plain")),
            ("lock", self.client.lock("bench:count:lock")),
        ] {
            let before = self.calls().await?;
            for _ in 0..PAIRS {
                pair(&lock).await?;
            }
            let all = difference(&before, &self.calls().await?);
            println!("{kind}: {}", per(&all, PAIRS));
        }
        Ok(())
    }

    /// 64 tasks of one process on one name.
    async fn one_name(&self) -> Result<()> {
        const TURNS: u64 = 64 * 50;
        let (mut rates, mut counts) = (vec![], BTreeMap::new());
        for round in 0..self.rounds {
            let lock = self.client.lock(format!("bench:one:{round}"));
            let before = self.calls().await?;
            let begin = Instant::now();
            let mut tasks = JoinSet::new();
            for _ in 0..64 {
                let lock = lock.clone();
                tasks.spawn(async move {
                    for _ in 0..50 {
                        pair(&lock).await?;
                    }
                    Ok::<(), String>(())
                });
            }
            finish(tasks).await?;
            rates.push(Rate { operations: TURNS, time: begin.elapsed() }.per_second());
            counts = difference(&before, &self.calls().await?);
        }
        let rate = report::median(rates.into_iter());
        println!("64 tasks on one name: {rate:.0} turns/s; {}", per(&counts, TURNS));
        Ok(())
    }

    /// 8 processes on one name.
    async fn processes(&self) -> Result<()> {
        const PROCESSES: usize = 8;
        const TURNS: usize = 200;
        let before = self.calls().await?;
        let turns = self.workers(PROCESSES, "bench:eight", TURNS, 0, 0)?;
        let all = difference(&before, &self.calls().await?);
        let first = turns.iter().map(|turn| turn.taken).min().unwrap_or_default();
        let last = turns.iter().map(|turn| turn.released).max().unwrap_or_default();
        let time = Duration::from_micros(u64::try_from(last - first)?);
        let rate = Rate { operations: turns.len() as u64, time }.per_second();
        println!("8 processes on one name: {rate:.0} turns/s; {}", per(&all, turns.len() as u64));
        Ok(())
    }

    /// From the call of unlock in one process to the guard in another.
    fn hand_off(&self) -> Result<()> {
        let mut turns = self.workers(2, "bench:hand-off", 300, 3_000, 1_000)?;
        turns.sort_by_key(|turn| turn.taken);
        let mut histogram = Histogram::<u64>::new(3)?;
        for pair in turns.windows(2) {
            if pair[0].worker != pair[1].worker && pair[1].taken >= pair[0].released {
                histogram.record(u64::try_from(pair[1].taken - pair[0].released)?)?;
            }
        }
        println!(
            "hand-off between two processes: p50 {} µs, p99 {} µs, max {} µs ({} hand-offs)",
            histogram.value_at_quantile(0.5),
            histogram.value_at_quantile(0.99),
            histogram.max(),
            histogram.len()
        );
        Ok(())
    }

    /// How often `tasks` tasks can do it, one after the other each, in the time of a measurement.
    async fn rate<F, Fut>(&self, tasks: usize, once: F) -> Result<Rate>
    where
        F: Fn(usize) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), String>> + Send,
    {
        let once = Arc::new(once);
        once(0).await?;
        let begin = Instant::now();
        let end = begin + self.time;
        let mut running = JoinSet::new();
        for task in 0..tasks {
            let once = Arc::clone(&once);
            running.spawn(async move {
                let mut operations = 0;
                while Instant::now() < end {
                    once(task).await?;
                    operations += 1;
                }
                Ok(operations)
            });
        }
        let operations = finish(running).await?.into_iter().sum();
        Ok(Rate { operations, time: begin.elapsed() })
    }

    /// Runs worker processes to their end.
    fn workers(
        &self,
        count: usize,
        name: &str,
        turns: usize,
        hold_micros: u64,
        pause_micros: u64,
    ) -> Result<Vec<Turn>> {
        let mut workers = Vec::new();
        for _ in 0..count {
            let mut command = Command::new(std::env::current_exe()?);
            command.arg("worker").args(["--url", &self.server.url(), "--name", name]);
            for (flag, value) in [
                ("--turns", turns as u64),
                ("--hold-micros", hold_micros),
                ("--pause-micros", pause_micros),
            ] {
                command.arg(flag).arg(value.to_string());
            }
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let mut out = BufReader::new(child.stdout.take().ok_or("no output of a worker")?);
            out.read_line(&mut String::new())?;
            workers.push((child, out));
        }
        for (child, _) in &mut workers {
            writeln!(child.stdin.as_mut().ok_or("no input of a worker")?)?;
        }
        let mut all = Vec::new();
        for (worker, (child, out)) in workers.into_iter().enumerate() {
            all.extend(turns_of(worker, child, out)?);
        }
        Ok(all)
    }

    /// Calls by command, as the server counts them: those within scripts too.
    async fn calls(&self) -> Result<BTreeMap<String, u64>> {
        Ok(self.server.raw().await.commandstats().await?)
    }
}

/// One turn of a worker.
struct Turn {
    worker: usize,
    taken: u128,
    released: u128,
}

fn turns_of(worker: usize, mut child: Child, out: impl BufRead) -> Result<Vec<Turn>> {
    let mut turns = Vec::new();
    for line in out.lines() {
        let line = line?;
        let (taken, released) = line.split_once(' ').ok_or("a worker said something odd")?;
        turns.push(Turn { worker, taken: taken.parse()?, released: released.parse()? });
    }
    if !child.wait()?.success() {
        return Err("a worker failed".into());
    }
    Ok(turns)
}

async fn pair(lock: &ferrisson::LockHandle) -> Result<(), String> {
    let guard = lock.lock().await.map_err(text)?;
    guard.unlock().await.map_err(text)
}

async fn finish<T: 'static>(mut tasks: JoinSet<Result<T, String>>) -> Result<Vec<T>> {
    let mut all = Vec::new();
    while let Some(done) = tasks.join_next().await {
        all.push(done??);
    }
    Ok(all)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn difference(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let count = |(name, calls): (&String, &u64)| {
        let calls = calls - before.get(name).copied().unwrap_or(0);
        (calls > 0 && name != "info").then(|| (name.clone(), calls))
    };
    after.iter().filter_map(count).collect()
}

/// Sent commands for each operation, then what ran within scripts.
fn per(calls: &BTreeMap<String, u64>, operations: u64) -> String {
    const SENT: [&str; 6] = ["eval", "evalsha", "subscribe", "unsubscribe", "ping", "hello"];
    let rate = |calls: u64| calls as f64 / operations as f64;
    let (sent, within): (Vec<_>, Vec<_>) =
        calls.iter().partition(|(name, _)| SENT.contains(&name.as_str()));
    let list = |calls: &[(&String, &u64)]| {
        let all = calls.iter().filter(|(_, calls)| rate(**calls) >= 0.005);
        all.map(|(name, calls)| format!("{name} {:.2}", rate(**calls)))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let total: u64 = sent.iter().map(|(_, calls)| **calls).sum();
    format!("{:.2} commands each ({}; in scripts: {})", rate(total), list(&sent), list(&within))
}

fn machine() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = model.map_or("unknown processor", |(_, model)| model);
    format!("{cores} cores, {model}; ferrisson {}", env!("CARGO_PKG_VERSION"))
}
