//! Servers that answer, but will not do it.

use std::{fs, path::PathBuf, time::Duration};

use ferrisson_core::{Client, Error, HoldState, Refusal, Result};
use ferrisson_testkit::{Raw, Server, Value, poll_until};
use ferrisson_tests::real::{
    LONG, PATIENCE, Testbed, backend, client, is_held_by, load_scripts, permits, soon, until_gone,
    until_subscribed,
};

const NAME: &str = "x";
const ZERO: Duration = Duration::ZERO;

#[track_caller]
pub(crate) fn assert_refused<T>(result: Result<T>, expected: Refusal) {
    let Err(error) = result else { panic!("not refused, instead of {expected:?}") };
    let refused = matches!(&error, Error::Refused { refusal, .. } if *refusal == expected);
    assert!(refused, "{error:?} instead of {expected:?}");
}

/// A client whose waiting calls ride out this much trouble.
async fn client_with_patience(server: &Server, patience: Duration) -> Client {
    let builder = Client::builder(backend(&server.url()).await).patience(patience);
    builder.watchdog_lease(Duration::from_millis(900)).build().unwrap()
}

#[tokio::test]
async fn a_server_out_of_memory_grants_nothing_and_takes_everything_back() {
    let server = Server::start().await;
    load_scripts(&server).await;
    let (client, mut raw) = (client(&server.url()).await, server.raw().await);
    let semaphore = client.semaphore("s");
    semaphore.try_set_permits(5).await.unwrap();
    let permits_taken = [semaphore.acquire(1).await.unwrap(), semaphore.acquire(1).await.unwrap()];
    let mut guards = Vec::new();
    for i in 0..2 {
        guards.push(client.lock(format!("r{i}")).lock().await.unwrap());
        guards.push(client.plain_lock(format!("p{i}")).lock().await.unwrap());
    }
    server.set_config("maxmemory", "1").await;

    // A full server does not get better by waiting: told at once, also to those who wait.
    for wait in [ZERO, PATIENCE] {
        assert_refused(client.lock(NAME).try_lock(wait, LONG).await, Refusal::OutOfMemory);
        assert_refused(client.plain_lock(NAME).try_lock(wait, LONG).await, Refusal::OutOfMemory);
        assert_refused(semaphore.try_acquire(1, wait).await, Refusal::OutOfMemory);
    }
    assert_refused(client.semaphore("new").try_set_permits(1).await, Refusal::OutOfMemory);
    assert_refused(client.bucket::<u8>("b").set(&1).await, Refusal::OutOfMemory);

    guards[0].renew(LONG).await.unwrap();
    guards[1].renew(LONG).await.unwrap();
    guards[0].reenter().await.unwrap().unlock().await.unwrap();
    drop(guards.split_off(2));
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    let [released, dropped] = permits_taken;
    released.release().await.unwrap();
    drop(dropped);
    semaphore.release(1).await.unwrap();
    poll_until("everything is free", PATIENCE, async || {
        raw.keys().await.unwrap() == ["s"] && permits(&mut raw, "s").await == 6
    })
    .await;
    server.set_config("maxmemory", "0").await;
    client.lock(NAME).lock().await.unwrap().unlock().await.unwrap();
}

// B236
#[tokio::test]
async fn a_server_busy_with_a_script_of_somebody_else_is_waited_for() {
    let server = Server::start().await;
    load_scripts(&server).await;
    let client = client_with_patience(&server, PATIENCE).await;
    let impatient = client_with_patience(&server, ZERO).await;
    server.set_config("lua-time-limit", "50").await;
    let (mut raw, mut endless) = (server.raw().await, server.raw().await);
    endless.send(&["EVAL", "while true do end", "0"]).await.unwrap();
    let is_busy = async || {
        let tried = impatient.lock(NAME).try_lock(ZERO, LONG).await;
        matches!(tried, Err(Error::Refused { refusal: Refusal::Busy, .. }))
    };
    poll_until("it is told that the server is busy", PATIENCE, is_busy).await;
    let lock = client.lock(NAME);
    let waiting = tokio::spawn(async move { lock.lock().await });
    raw.command(&["SCRIPT", "KILL"]).await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    assert!(is_held_by(&mut raw, &guard).await);
}

#[tokio::test]
async fn a_server_with_too_few_replicas_is_told_and_what_was_released_goes_when_there_are_enough() {
    let server = Server::start().await;
    load_scripts(&server).await;
    let client = client_with_patience(&server, Duration::from_millis(100)).await;
    let guard = client.lock(NAME).lock_with(LONG).await.unwrap();
    server.set_config("min-replicas-to-write", "1").await;
    assert_refused(client.lock("y").try_lock(PATIENCE, LONG).await, Refusal::TooFewReplicas);
    assert_refused(guard.unlock().await, Refusal::TooFewReplicas);
    server.set_config("min-replicas-to-write", "0").await;
    until_gone(&mut server.raw().await, NAME).await;
}

// B231, B236
#[tokio::test]
async fn a_demoted_server_is_waited_for_without_a_storm_of_connections() {
    let bed = Testbed::start().await;
    let builder = Client::builder(backend(&bed.proxy.url()).await).patience(PATIENCE);
    let client = builder.build().unwrap();
    let mut raw = bed.server.raw().await;
    let dropped = client.lock("dropped").lock().await.unwrap();
    let nobody = ["REPLICAOF", "127.0.0.1", "1"];
    raw.command(&nobody).await.unwrap();
    let impatient = client_with_patience(&bed.server, ZERO).await;
    assert_refused(soon(impatient.lock(NAME).try_lock(LONG, LONG)).await, Refusal::ReadOnly);
    assert_refused(client.lock(NAME).try_lock(ZERO, LONG).await, Refusal::ReadOnly);

    bed.proxy.reset_counts();
    let lock = client.lock(NAME);
    let waiting = tokio::spawn(async move { lock.lock().await });
    drop(dropped);
    tokio::time::sleep(Duration::from_secs(2)).await;
    let connects = bed.proxy.count("HELLO");
    assert!(connects <= 10, "{connects} connections in two seconds");
    assert!(!waiting.is_finished());

    raw.command(&["REPLICAOF", "NO", "ONE"]).await.unwrap();
    soon(waiting).await.unwrap().unwrap().unlock().await.unwrap();
    until_gone(&mut raw, "dropped").await;
}

/// Makes the server unable to write its snapshot, so that it stops writes. Permissions would not
/// do that to a server that root has started.
async fn break_snapshots(server: &Server) -> PathBuf {
    let mut raw = server.raw().await;
    let dir = raw.command(&["CONFIG", "GET", "dir"]).await.unwrap().texts()[1].clone();
    let obstacle = PathBuf::from(dir).join("dump.rdb");
    fs::create_dir(&obstacle).unwrap();
    server.set_config("save", "3600 1000000").await;
    raw.command(&["BGSAVE"]).await.unwrap();
    poll_until("the snapshot has failed", PATIENCE, async || {
        raw.info("rdb_last_bgsave_status").await.unwrap().trim() == "err"
    })
    .await;
    obstacle
}

// B253
#[tokio::test]
async fn a_server_that_cannot_persist_is_told_and_what_was_released_goes_when_it_can() {
    let server = Server::start().await;
    load_scripts(&server).await;
    let client = client_with_patience(&server, Duration::from_millis(100)).await;
    let mut raw = server.raw().await;
    let guard = client.lock(NAME).lock().await.unwrap();
    let obstacle = break_snapshots(&server).await;
    assert_refused(client.lock("y").lock().await, Refusal::Misconfigured);
    // The lease cannot be extended, so the guard ends in time, and is not renewed after it.
    assert_refused(guard.unlock().await, Refusal::Misconfigured);
    let guard = client.lock(NAME);
    fs::remove_dir(obstacle).unwrap();
    raw.command(&["SAVE"]).await.unwrap();
    until_gone(&mut raw, NAME).await;
    guard.lock().await.unwrap().unlock().await.unwrap();
}

// B236
#[tokio::test]
async fn a_server_that_loads_its_data_is_waited_for() {
    const KEYS: u64 = 2000;
    let server = Server::builder()
        // Makes the load take a second, during which the server answers.
        .arg("--key-load-delay")
        .arg((1_000_000 / KEYS).to_string())
        .arg("--loading-process-events-interval-bytes")
        .arg("1024")
        .start()
        .await;
    let client = Client::builder(backend(&server.url()).await).patience(PATIENCE);
    let client = client.watchdog_lease(Duration::from_secs(15)).build().unwrap();
    let impatient = client_with_patience(&server, ZERO).await;
    let guard = client.lock(NAME).lock().await.unwrap();
    let fill = "for i = 1, ARGV[1] do redis.call('set', 'k' .. i, string.rep('x', 50)) end";
    let mut raw = server.raw().await;
    raw.command(&["EVAL", fill, "0", &KEYS.to_string()]).await.unwrap();
    raw.command(&["SAVE"]).await.unwrap();
    let calls = async {
        poll_until("it loads", PATIENCE, async || is_loading(server.port()).await).await;
        let refused = async || {
            matches!(
                impatient.lock("z").try_lock(ZERO, LONG).await,
                Err(Error::Refused { refusal: Refusal::Loading, .. })
            )
        };
        poll_until("the client is connected again", PATIENCE, refused).await;
        client.lock("y").lock().await.unwrap()
    };
    let (other, ()) = tokio::join!(calls, server.restart());
    assert!(is_held_by(&mut server.raw().await, &other).await);
    assert!(is_held_by(&mut server.raw().await, &guard).await, "it was in the snapshot");
    guard.unlock().await.unwrap();
}

async fn is_loading(port: u16) -> bool {
    let Ok(mut raw) = Raw::connect(port).await else { return false };
    matches!(raw.command(&["PING"]).await, Ok(Value::Error(text)) if text.starts_with("LOADING"))
}

// B256, B300
#[tokio::test]
async fn a_changed_password_is_told_and_service_returns_with_the_old_one() {
    let server = Server::builder().password("secret-1").start().await;
    let bed = Testbed::on(server).await;
    let builder = Client::builder(backend(&bed.proxy.url()).await).poll_interval(LONG);
    let client = builder.build().unwrap();
    let holder = bed.near().await;
    client.lock(NAME).lock().await.unwrap().unlock().await.unwrap();
    let mut raw = bed.server.raw().await;
    raw.command(&["CONFIG", "SET", "requirepass", "secret-2"]).await.unwrap();
    raw.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]).await.unwrap();
    let lock = client.lock(NAME);
    let mut error = None;
    poll_until("the refusal is told", PATIENCE, async || {
        error = lock.try_lock(ZERO, LONG).await.err();
        matches!(error, Some(Error::Refused { refusal: Refusal::Authentication, .. }))
    })
    .await;
    let error = error.unwrap();
    let shown = format!("{error} {error:?} {client:?}");
    assert!(!shown.contains("secret"), "{shown}");
    bed.proxy.reset_counts();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let connects = bed.proxy.count("HELLO");
    assert!(connects <= 20, "{connects} log-ins in a second");

    raw.command(&["CONFIG", "SET", "requirepass", "secret-1"]).await.unwrap();
    let guard = loop {
        // The holder's connections were thrown out as well.
        match holder.lock(NAME).try_lock(PATIENCE, LONG).await {
            Ok(guard) => break guard.expect("it is free"),
            Err(Error::Refused { refusal: Refusal::Authentication, .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    };
    let waiting = tokio::spawn(async move {
        loop {
            match lock.try_lock(PATIENCE, LONG).await {
                Err(Error::Refused { refusal: Refusal::Authentication, .. }) => {}
                other => return other,
            }
        }
    });
    // Messages, too, come again.
    until_subscribed(&mut raw, "redisson_lock__channel:{x}", 1).await;
    guard.unlock().await.unwrap();
    soon(waiting).await.unwrap().unwrap().expect("it was woken").unlock().await.unwrap();
}

// B259
#[tokio::test]
async fn what_belongs_to_somebody_else_is_told_and_not_touched() {
    let server = Server::start().await;
    load_scripts(&server).await;
    let (client, mut raw) = (client(&server.url()).await, server.raw().await);
    let foreign: [&[&str]; 4] = [
        &["SET", NAME, "text"],
        &["RPUSH", NAME, "a", "b"],
        &["ZADD", NAME, "1", "a"],
        &["HSET", NAME, "field", "value"],
    ];
    for command in foreign {
        raw.command(&["DEL", NAME]).await.unwrap();
        raw.command(command).await.unwrap();
        let before = raw.command(&["DUMP", NAME]).await.unwrap();
        let (is_string, is_hash) = (command[0] == "SET", command[0] == "HSET");
        let (lock, plain) = (client.lock(NAME), client.plain_lock(NAME));
        if !is_hash {
            assert_wrong_type(lock.try_lock(PATIENCE, LONG).await);
            assert_wrong_type(lock.inspect().await);
            assert_wrong_type(lock.force_unlock().await);
        }
        if !is_string {
            assert_wrong_type(plain.try_lock(PATIENCE, LONG).await);
            assert_wrong_type(plain.inspect().await);
            assert_wrong_type(plain.force_unlock().await);
            assert_wrong_type(client.semaphore(NAME).try_acquire(1, PATIENCE).await);
            assert_wrong_type(client.semaphore(NAME).available_permits().await);
            assert_wrong_type(client.bucket::<u8>(NAME).get().await);
        } else {
            let semaphore = client.semaphore(NAME);
            assert_refused(semaphore.try_acquire(1, PATIENCE).await, Refusal::Other);
            assert_refused(semaphore.release(1).await, Refusal::Other);
            assert_refused(semaphore.drain_permits().await, Refusal::Other);
        }
        assert_eq!(raw.command(&["DUMP", NAME]).await.unwrap(), before, "{command:?}");
        assert_eq!(raw.command(&["PTTL", NAME]).await.unwrap().int(), -1);
    }
}

#[track_caller]
fn assert_wrong_type<T>(result: Result<T>) {
    let Err(error) = result else { panic!("no error") };
    assert!(matches!(&error, Error::WrongType { name, .. } if name.as_str() == NAME), "{error:?}");
}

// B259: what happens to a guard whose key is taken by something else.
#[tokio::test]
async fn a_held_lock_whose_key_is_overwritten_is_lost() {
    let server = Server::start().await;
    let client = client_with_patience(&server, PATIENCE).await;
    let mut raw = server.raw().await;
    let guard = client.lock(NAME).lock().await.unwrap();
    raw.command(&["SET", NAME, "text"]).await.unwrap();
    soon(guard.lost()).await;
    assert!(matches!(guard.state(), HoldState::Lost(_)));
    assert!(guard.unlock().await.is_err());
    assert_eq!(raw.command(&["GET", NAME]).await.unwrap().text(), "text");
}
