//! A process that takes locks and permits, and writes down what it believes to hold.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::FileExt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ferrisson_core::{Client, LockGuard, LossReason, SemaphorePermit};
use ferrisson_tests::{
    real,
    worker::{Job, Object, Orders, now},
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines, Stdin, stdin},
    task::JoinSet,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

/// Tells the permits of this process apart.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A counter is written with so many digits, so that one write replaces all of it.
const DIGITS: usize = 20;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let job = std::env::args().nth(1).expect("a job");
    let job: Job = serde_json::from_str(&job).expect("a job in JSON");
    let builder = Client::builder(real::backend(&job.url).await)
        .watchdog_lease(Duration::from_millis(job.watchdog_ms))
        .poll_interval(Duration::from_millis(job.poll_ms));
    let client = builder.build().expect("the settings are valid");
    let claims = OpenOptions::new().append(true).create(true).open(&job.claims);
    let claims = Arc::new(claims.expect("the file of claims can be written"));
    let lines = BufReader::new(stdin()).lines();
    match &job.orders {
        // Afterwards like a crash: what is held stays.
        Orders::Listen => listen(&client, &job, &claims, lines).await,
        Orders::Compete { .. } => {
            compete(&client, &job, &claims, lines).await;
            client.close().await;
        }
    }
    // Not by returning: the runtime would wait for the next line of the input.
    std::process::exit(0);
}

/// What was taken.
enum Taken {
    Lock(LockGuard),
    Permits(SemaphorePermit, String),
}

impl Taken {
    async fn take(client: &Client, job: &Job, permits: u32) -> ferrisson_core::Result<Self> {
        let name = job.name.as_str();
        Ok(match job.object {
            Object::Lock => Self::Lock(client.lock(name).lock().await?),
            Object::Plain => Self::Lock(client.plain_lock(name).lock().await?),
            Object::Permits => {
                let permit = client.semaphore(name).acquire(permits).await?;
                // A permit has no owner to tell apart.
                let number = NUMBER.fetch_add(1, Ordering::Relaxed);
                Self::Permits(permit, format!("{}-{number}", client.id()))
            }
        })
    }

    fn owner(&self) -> String {
        match self {
            Self::Lock(guard) => guard.owner().to_string(),
            Self::Permits(_, owner) => owner.clone(),
        }
    }

    fn is_held(&self) -> bool {
        match self {
            Self::Lock(guard) => guard.is_held(),
            Self::Permits(..) => true,
        }
    }

    async fn lost(&self) -> LossReason {
        match self {
            Self::Lock(guard) => guard.lost().await,
            Self::Permits(..) => std::future::pending().await,
        }
    }

    async fn give(self) -> ferrisson_core::Result<()> {
        match self {
            Self::Lock(guard) => guard.unlock().await,
            Self::Permits(permit, _) => permit.release().await,
        }
    }
}

/// The record of one claim.
struct Claim<'a> {
    file: &'a File,
    owner: String,
}

impl<'a> Claim<'a> {
    fn begin(file: &'a File, taken: &Taken, permits: u32) -> Self {
        let claim = Self { file, owner: taken.owner() };
        claim.write("B", now(), &format!(" {permits}"));
        claim
    }

    /// It is held at this moment, if so. The order matters: what is held later was held before.
    fn mark(&self, letter: &str, taken: &Taken) -> bool {
        let at = now();
        let held = taken.is_held();
        if held {
            self.write(letter, at, "");
        }
        held
    }

    fn lost(&self) {
        self.write("L", now(), "");
    }

    fn write(&self, letter: &str, at: u64, rest: &str) {
        let line = format!("{letter} {} {at}{rest}\n", self.owner);
        let mut file = self.file;
        file.write_all(line.as_bytes()).expect("the file of claims can be written");
    }
}

async fn compete(
    client: &Client,
    job: &Job,
    claims: &Arc<File>,
    mut lines: Lines<BufReader<Stdin>>,
) {
    let Orders::Compete { tasks, rounds, seed, .. } = job.orders else { return };
    let end = CancellationToken::new();
    let mut set = JoinSet::new();
    for task in 0..tasks {
        let (client, job, claims) = (client.clone(), job.clone(), Arc::clone(claims));
        let (mut random, end) = (StdRng::seed_from_u64(seed ^ task), end.clone());
        set.spawn(async move {
            for _ in 0..rounds {
                let round = round(&client, &job, &claims, &mut random);
                if end.run_until_cancelled(round).await.is_none() {
                    return;
                }
            }
        });
    }
    tokio::select! {
        _ = lines.next_line() => end.cancel(),
        () = async { while set.join_next().await.is_some() {} } => {}
    }
    while let Some(done) = set.join_next().await {
        done.expect("no task panics");
    }
    println!("done");
}

/// Takes it once, works, and gives it back.
async fn round(client: &Client, job: &Job, claims: &File, random: &mut StdRng) {
    let Orders::Compete { hold_ms, counter, .. } = &job.orders else { return };
    let permits =
        if matches!(job.object, Object::Permits) { random.random_range(1..=2) } else { 1 };
    let Ok(taken) = Taken::take(client, job, permits).await else { return };
    let claim = Claim::begin(claims, &taken, permits);
    let number = counter.as_ref().map(|path| (path, read(path)));
    for _ in 0..random.random_range(0..=*hold_ms) {
        sleep(Duration::from_millis(1)).await;
        if !claim.mark("S", &taken) {
            return claim.lost();
        }
    }
    if let Some((path, number)) = number {
        if !claim.mark("W", &taken) {
            return claim.lost();
        }
        write(path, number + 1);
    }
    claim.mark("E", &taken);
    // An error means that it was lost, which the claim has not counted on.
    let _ = taken.give().await;
}

fn read(path: &std::path::Path) -> u64 {
    let text = std::fs::read_to_string(path).expect("the counter can be read");
    text.trim().parse().expect("the counter is a number")
}

fn write(path: &std::path::Path, number: u64) {
    let file = OpenOptions::new().write(true).open(path).expect("the counter can be written");
    file.write_all_at(format!("{number:DIGITS$}").as_bytes(), 0).expect("it is written");
}

async fn listen(client: &Client, job: &Job, claims: &File, mut lines: Lines<BufReader<Stdin>>) {
    let mut taken: Option<(Taken, Claim<'_>)> = None;
    while let Some(order) = next_order(&mut lines, &mut taken).await {
        match (order.as_str(), taken.take()) {
            ("take", None) => {
                println!("asking");
                match Taken::take(client, job, 1).await {
                    Ok(new) => {
                        let claim = Claim::begin(claims, &new, 1);
                        println!("held {} {}", new.owner(), now());
                        taken = Some((new, claim));
                    }
                    Err(error) => println!("error {error}"),
                }
            }
            ("give", Some((old, _))) => match old.give().await {
                Ok(()) => println!("given"),
                Err(error) => println!("error {error}"),
            },
            (order, _) => panic!("{order:?} makes no sense now"),
        }
    }
}

/// The next order; until then, marks of what is held.
async fn next_order(
    lines: &mut Lines<BufReader<Stdin>>,
    taken: &mut Option<(Taken, Claim<'_>)>,
) -> Option<String> {
    let mut is_lost = false;
    loop {
        let marking = async {
            match taken {
                Some((taken, claim)) if !is_lost => {
                    sleep(Duration::from_millis(1)).await;
                    if !claim.mark("S", taken) {
                        claim.lost();
                        println!("lost {:?}", taken.lost().await);
                        is_lost = true;
                    }
                }
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            line = lines.next_line() => return line.expect("orders are text"),
            () = marking => {}
        }
    }
}
