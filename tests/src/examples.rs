//! The demos say what they should, in this process and on a server, and leave nothing there.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use ferrisson::{Client, MemoryBackend, Refusal};
use ferrisson_examples::Say;
use ferrisson_testkit::{
    Server,
    faulty::{Fault, FaultyBackend, Op},
};

use self::diners::Dinner;

#[allow(dead_code)] // Its `main`.
#[path = "../../examples/diners.rs"]
mod diners;
#[allow(dead_code)] // Its `main`.
#[path = "../../examples/javaboy.rs"]
mod javaboy;

const JAVABOY: [&str; 6] = [
    "k1: nobody had the seat",
    "name: javaboy",
    "k1: the seat is free again",
    "lock: got it",
    "javaboy: www.javaboy.org",
    "lock: unlocked",
];

/// Keeps the lines of a demo.
#[derive(Clone, Default)]
struct Notebook(Arc<Mutex<Vec<String>>>);

impl Notebook {
    fn say(&self) -> Say {
        let this = self.clone();
        Arc::new(move |line| this.0.lock().unwrap().push(line))
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    /// Who has said something that starts like this, and when, in the order in which they did.
    fn people(&self, what: &str) -> Vec<(String, u64)> {
        let said = self.lines().into_iter().filter_map(|line| {
            let (person, rest) = line.split_once(' ')?;
            let time = rest.strip_suffix(" ms")?.rsplit_once(' ')?.1;
            rest.starts_with(what).then(|| (person.to_owned(), time.parse().unwrap()))
        });
        said.collect()
    }
}

async fn javaboy(client: &Client) -> Vec<String> {
    let notebook = Notebook::default();
    javaboy::jedis_way(client, &notebook.say()).await.unwrap();
    javaboy::redisson_way(client, &notebook.say()).await.unwrap();
    notebook.lines()
}

async fn client_of(server: &Server) -> Client {
    ferrisson::connect(&server.url()).await.unwrap()
}

async fn keys_of(server: &Server) -> Vec<String> {
    server.raw().await.keys().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn javaboy_runs_without_a_server() {
    let backend = MemoryBackend::new();
    assert_eq!(javaboy(&Client::new(backend.clone())).await, JAVABOY);
    assert_eq!(backend.keys(), Vec::<String>::new());
}

#[tokio::test]
async fn javaboy_runs_on_a_server_with_a_password() {
    let server = Server::builder().password("123").start().await;
    let client = client_of(&server).await;
    assert_eq!(javaboy(&client).await, JAVABOY);
    assert_eq!(keys_of(&server).await, Vec::<String>::new());
    client.close().await;
}

#[tokio::test]
async fn javaboy_says_that_somebody_else_was_faster() {
    let server = Server::builder().password("123").start().await;
    let (client, other) = (client_of(&server).await, client_of(&server).await);
    let seat = other.plain_lock("k1").lock().await.unwrap();
    let lock = other.lock("lock").lock().await.unwrap();
    let lines = javaboy(&client).await;
    assert_eq!(lines, ["k1: somebody has the seat", "lock: could not get it"]);
    seat.unlock().await.unwrap();
    lock.unlock().await.unwrap();
    assert_eq!(javaboy(&client).await, JAVABOY);
}

/// What has to be true of every evening.
fn assert_orderly(notebook: &Notebook) {
    let lines = notebook.lines().join("\n");
    assert_eq!(notebook.people("cannot eat").len(), 4, "in the first act one eats:\n{lines}");
    let eaten = notebook.people("begins to eat");
    let hungry = notebook.people("gives up");
    assert_eq!(eaten.len() - 1 + hungry.len(), 5, "everybody eats or gives up:\n{lines}");
    let people: BTreeSet<_> = eaten[1..].iter().chain(&hungry).map(|(person, _)| person).collect();
    assert_eq!(people.len(), 5, "and does so once:\n{lines}");
    assert!(lines.ends_with("or an error, is not to have it"), "{lines}");
}

#[tokio::test(start_paused = true)]
async fn diners_eat_one_after_the_other() {
    let (mut all_fed, mut some_hungry) = (0, 0);
    for seed in 0..50 {
        let (backend, notebook) = (MemoryBackend::new(), Notebook::default());
        let dinner = Dinner::new(&Client::new(backend.clone()), seed, notebook.say());
        dinner.run().await.unwrap();
        assert_orderly(&notebook);
        assert_eq!(backend.keys(), Vec::<String>::new());

        let lines = notebook.lines().join("\n");
        let (begun, walked) = (notebook.people("begins"), notebook.people("walks away"));
        let back = notebook.people("gives the plate back");
        for meal in begun.windows(2).skip(1) {
            let (eater, next) = (&meal[0], &meal[1]);
            let left = back.iter().find(|(person, _)| *person == eater.0);
            // Who walks away takes the plate along until the lease ends.
            let free = left.map_or(eater.1 + 5000, |(_, time)| *time);
            assert!(free <= next.1, "seed {seed}: {} begins too early:\n{lines}", next.0);
        }
        match notebook.people("gives up").len() {
            0 => all_fed += 1,
            _ => some_hungry += 1,
        }
        assert!(walked.len() + back.len() == begun.len(), "seed {seed}:\n{lines}");
    }
    assert!(all_fed > 0 && some_hungry > 0, "{all_fed} {some_hungry}");
}

#[tokio::test(start_paused = true)]
async fn a_seed_repeats_an_evening() {
    let evening = async |seed| {
        let notebook = Notebook::default();
        let client = Client::new(MemoryBackend::new());
        Dinner::new(&client, seed, notebook.say()).run().await.unwrap();
        notebook.lines()
    };
    assert_eq!(evening(7).await, evening(7).await);
    assert_ne!(evening(7).await, evening(8).await);
}

#[tokio::test]
async fn diners_share_a_plate_on_a_server_with_a_password() {
    let server = Server::builder().password("123").start().await;
    let (client, notebook) = (client_of(&server).await, Notebook::default());
    let mut dinner = Dinner::new(&client, 7, notebook.say());
    dinner.wait = Duration::from_millis(500);
    dinner.lease = Duration::from_millis(500);
    dinner.meal = Duration::from_millis(100);
    dinner.run().await.unwrap();
    assert_orderly(&notebook);
    assert_eq!(keys_of(&server).await, Vec::<String>::new());
    client.close().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_eats_when_nobody_knows_who_has_the_plate() {
    let backend = FaultyBackend::new(MemoryBackend::new());
    let (faults, notebook) = (backend.faults(), Notebook::default());
    faults.fail_all(Op::Acquire, Fault::Refuse(Refusal::OutOfMemory));
    let dinner = Dinner::new(&Client::new(backend), 7, notebook.say());
    dinner.run().await.unwrap();
    assert_eq!(notebook.people("begins to eat"), []);
    let refused = notebook.lines().iter().filter(|line| line.contains("does not eat")).count();
    assert_eq!(refused, 10, "five in each act: {:?}", notebook.lines());
}
