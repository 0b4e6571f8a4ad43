//! Five people and one plate, which is a plain lock of five seconds.
//!
//! ```text
//! cargo run --example diners
//! cargo run --example diners -- --seed 7 --url redis://:123@127.0.0.1:6379
//! ```
//!
//! Act one: each looks once. One eats, the others cannot. Act two: each waits for up to five
//! seconds. Whoever has eaten gives the plate back in six of ten cases and walks away with it in the
//! others, so that it is free only when its lease ends.
//!
//! Nobody eats without the plate: not when the time is over, and not when an error leaves open who
//! has it.

use std::{error::Error, time::Duration};

use ferrisson::{Client, LockGuard, LockHandle, Result};
use ferrisson_examples::{Args, Parser, Say, terminal};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use tokio::{task::JoinSet, time::Instant};

const PEOPLE: usize = 5;
const GIVES_BACK: f64 = 0.6;

// One thread: who comes first is up to the seed.
#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| rand::rng().random_range(0..1000));
    let client = args.client().await?;
    println!("# --seed {seed} repeats this evening");
    Dinner::new(&client, seed, terminal()).run().await?;
    client.close().await;
    Ok(())
}

/// An evening.
#[derive(Clone)]
pub(crate) struct Dinner {
    plate: LockHandle,
    /// How long a plate stays with somebody who does not give it back.
    pub(crate) lease: Duration,
    /// How long somebody waits for it.
    pub(crate) wait: Duration,
    /// How long a meal takes at most.
    pub(crate) meal: Duration,
    seed: u64,
    started: Instant,
    say: Say,
}

impl Dinner {
    /// Five seconds for everything, and up to one for a meal.
    pub(crate) fn new(client: &Client, seed: u64, say: Say) -> Self {
        let (lease, wait) = (Duration::from_secs(5), Duration::from_secs(5));
        let (plate, meal) = (client.plain_lock("lock:eat"), Duration::from_secs(1));
        Self { plate, lease, wait, meal, seed, started: Instant::now(), say }
    }

    /// Both acts.
    pub(crate) async fn run(&self) -> Result<()> {
        self.say("act one: everybody looks once");
        self.act(Duration::ZERO).await;
        self.clear().await?;

        self.say(format!("act two: everybody waits for up to {} ms", self.wait.as_millis()));
        self.act(self.wait).await;
        self.clear().await?;

        self.say("nobody ate without the plate: to wait in vain, or an error, is not to have it");
        Ok(())
    }

    /// All come at once, in an order that the seed decides, and wait for up to `wait`.
    async fn act(&self, wait: Duration) {
        let mut rng = StdRng::seed_from_u64(self.seed);
        let mut people: Vec<usize> = (0..PEOPLE).collect();
        people.shuffle(&mut rng);
        let mut table = JoinSet::new();
        for person in people {
            let habit = Habit {
                meal: self.meal.mul_f64(rng.random_range(0.1..1.0)),
                // In the first act nobody does: the lock ends by itself.
                gives_back: rng.random_bool(GIVES_BACK) && !wait.is_zero(),
            };
            let dinner = self.clone();
            table.spawn(async move { dinner.person(person, wait, habit).await });
        }
        table.join_all().await;
    }

    async fn person(&self, person: usize, wait: Duration, habit: Habit) {
        let outcome = match self.plate.try_lock(wait, self.lease).await {
            Ok(Some(plate)) => self.eat(person, plate, habit).await,
            Ok(None) if wait.is_zero() => "cannot eat: somebody else has the plate".to_owned(),
            Ok(None) => "gives up and stays hungry: never got the plate".to_owned(),
            Err(error) => format!("does not eat: nobody knows who has the plate ({error})"),
        };
        self.say(format!("person:{person} {outcome} at {} ms", self.now()));
    }

    async fn eat(&self, person: usize, plate: LockGuard, habit: Habit) -> String {
        self.say(format!("person:{person} begins to eat, with the plate, at {} ms", self.now()));
        if let Err(lost) = plate.run(tokio::time::sleep(habit.meal)).await {
            return format!("stops eating: {lost}");
        }
        if !habit.gives_back {
            plate.forget();
            return "walks away with the plate".to_owned();
        }
        match plate.unlock().await {
            Ok(()) => "gives the plate back".to_owned(),
            Err(error) => format!("could not give the plate back: {error}"),
        }
    }

    /// Between the acts the waiter looks for the plate.
    async fn clear(&self) -> Result<()> {
        if self.plate.force_unlock().await? {
            self.say("the waiter takes the plate from whoever has it");
        }
        Ok(())
    }

    fn now(&self) -> u128 {
        self.started.elapsed().as_millis()
    }

    fn say(&self, line: impl Into<String>) {
        (self.say)(line.into());
    }
}

/// What chance decides about a person.
struct Habit {
    meal: Duration,
    gives_back: bool,
}
