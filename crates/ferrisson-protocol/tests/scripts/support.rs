//! A [`Connection`] over one plain socket, which shows that the protocol needs no client, and what
//! the tests look at the server with.

use std::sync::{Mutex as StdMutex, PoisonError};

use async_trait::async_trait;
use ferrisson_core::{
    Name, Outcome, OwnerId,
    backend::{BackendError, Failure, LockKey, LockKind, Wakeup, WakeupHub},
};
use ferrisson_protocol::{CallError, Command, Connection, RedisBackend, Reply};
use ferrisson_testkit::{Raw, Server, Value, shared};
use tokio::{sync::Mutex, task::JoinSet};
use uuid::Uuid;

pub(crate) const KINDS: [LockKind; 2] = [LockKind::Reentrant, LockKind::Plain];

/// Sends one command after the other, and notes which.
#[derive(Debug)]
pub(crate) struct Plain {
    raw: Mutex<Raw>,
    port: u16,
    is_cluster: bool,
    sent: StdMutex<Vec<&'static str>>,
    hub: WakeupHub,
    listeners: Mutex<JoinSet<()>>,
}

impl Plain {
    fn new(raw: Raw, port: u16) -> Self {
        Self {
            raw: Mutex::new(raw),
            port,
            is_cluster: false,
            sent: StdMutex::default(),
            hub: WakeupHub::new(),
            listeners: Mutex::default(),
        }
    }

    /// How many scripts were run since the last time.
    pub(crate) fn take_runs(&self) -> usize {
        self.take_sent().iter().filter(|name| **name == "EVALSHA").count()
    }

    /// The names of the commands since the last time.
    pub(crate) fn take_sent(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.sent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[async_trait]
impl Connection for Plain {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).push(command.name);
        assert!(command.args.contains(&command.key), "the routing key is an argument");
        let mut words = vec![command.name.into()];
        words.extend(command.args);
        let reply = self.raw.lock().await.command(&words).await;
        let mut reply = reply.map_err(|error| CallError::Unknown(error.into()))?;
        if let Value::Error(text) = &reply
            && let Some(port) = moved_to(text)
        {
            let mut node = Raw::connect(port).await.unwrap();
            reply = node.command(&words).await.unwrap();
        }
        match reply {
            Value::Error(text) => Err(CallError::Server { text }),
            value => Ok(reply_of(value)),
        }
    }

    async fn subscribe(&self, channel: &str) -> Result<Wakeup, BackendError> {
        let wakeup = self.hub.register(channel);
        let unavailable =
            |error| BackendError::new(Failure::Unavailable(Outcome::NotExecuted), error);
        let mut raw = Raw::connect(self.port).await.map_err(unavailable)?;
        raw.subscribe(channel).await.map_err(unavailable)?;
        self.hub.set_live(channel, true);
        let hub = self.hub.clone();
        self.listeners.lock().await.spawn(async move {
            while let Ok((channel, _)) = raw.next_message().await {
                hub.wake(&channel);
            }
        });
        Ok(wakeup)
    }

    fn is_cluster(&self) -> bool {
        self.is_cluster
    }

    async fn close(&self) {
        self.listeners.lock().await.shutdown().await;
        self.hub.set_all_dead();
    }
}

/// The port of the node of a cluster that the command should have gone to.
fn moved_to(error: &str) -> Option<u16> {
    error.strip_prefix("MOVED ")?.rsplit_once(':')?.1.parse().ok()
}

fn reply_of(value: Value) -> Reply {
    match value {
        Value::Nil => Reply::Nil,
        Value::Int(number) => Reply::Integer(number),
        Value::Bulk(bytes) => Reply::Bytes(bytes),
        Value::Status(text) => Reply::Bytes(text.into()),
        Value::Array(items) => Reply::Array(items.into_iter().map(reply_of).collect()),
        Value::Error(text) => panic!("an error inside a list: {text}"),
    }
}

/// A backend on a server, and another client that looks at the same data.
pub(crate) struct World {
    pub(crate) backend: RedisBackend<Plain>,
    port: u16,
    raw: Raw,
}

impl World {
    /// On the server that all tests share.
    pub(crate) async fn new() -> Self {
        Self::on(shared()).await
    }

    pub(crate) async fn on(server: &Server) -> Self {
        let backend = RedisBackend::new(Plain::new(server.raw().await, server.port()));
        Self { backend, port: server.port(), raw: server.raw().await }
    }

    /// With a backend that takes its server for a cluster.
    pub(crate) async fn as_cluster() -> Self {
        let server = shared();
        let mut connection = Plain::new(server.raw().await, server.port());
        connection.is_cluster = true;
        Self { backend: RedisBackend::new(connection), ..Self::new().await }
    }

    /// With a backend that is a user with these rules.
    pub(crate) async fn as_user(server: &Server, rules: &[&str]) -> Self {
        let mut world = Self::on(server).await;
        let user = Uuid::new_v4().to_string();
        let mut setuser = vec!["ACL", "SETUSER", &user, "on", ">secret"];
        setuser.extend(rules);
        assert_eq!(world.command(&setuser).await, Value::Status("OK".into()));
        let mut raw = server.raw().await;
        let reply = raw.command(&["AUTH", &user, "secret"]).await.unwrap();
        assert_eq!(reply, Value::Status("OK".into()));
        world.backend = RedisBackend::new(Plain::new(raw, server.port()));
        world
    }

    pub(crate) async fn command(&mut self, words: &[&str]) -> Value {
        self.raw.command(words).await.unwrap()
    }

    pub(crate) async fn get(&mut self, key: impl AsRef<str>) -> Option<String> {
        match self.command(&["GET", key.as_ref()]).await {
            Value::Nil => None,
            value => Some(value.text()),
        }
    }

    /// The fields of a hash, each as `field=value`.
    pub(crate) async fn hash(&mut self, name: &Name) -> Vec<String> {
        let fields = self.raw.hash(name.as_str()).await.unwrap();
        fields.into_iter().map(|(field, value)| format!("{field}={value}")).collect()
    }

    /// The time to live in seconds, rounded up; -1 without, -2 for an absent key.
    pub(crate) async fn ttl(&mut self, key: impl AsRef<str>) -> i64 {
        match self.command(&["PTTL", key.as_ref()]).await.int() {
            millis if millis < 0 => millis,
            millis => millis.unsigned_abs().div_ceil(1000).try_into().unwrap(),
        }
    }

    /// The keys that belong to a name.
    pub(crate) async fn keys(&mut self, name: &Name) -> Vec<String> {
        self.raw.keys_like(&format!("*{name}*")).await.unwrap()
    }

    /// A list, which is no object of ours, under this name.
    pub(crate) async fn put_list(&mut self, name: &Name) {
        self.command(&["RPUSH", name.as_str(), "a", "b"]).await;
        self.command(&["EXPIRE", name.as_str(), "500"]).await;
    }

    /// That list is as it was.
    pub(crate) async fn assert_list(&mut self, name: &Name) {
        let list = self.command(&["LRANGE", name.as_str(), "0", "-1"]).await;
        assert_eq!(list.texts(), ["a", "b"]);
        assert_eq!(self.ttl(name.as_str()).await, 500);
    }

    /// Listens to a channel.
    pub(crate) async fn listen(&self, channel: String) -> Listener {
        let mut raw = Raw::connect(self.port).await.unwrap();
        raw.subscribe(&channel).await.unwrap();
        Listener { messages: raw, publisher: Raw::connect(self.port).await.unwrap(), channel }
    }
}

pub(crate) struct Listener {
    messages: Raw,
    publisher: Raw,
    channel: String,
}

impl Listener {
    /// All messages up to now.
    pub(crate) async fn heard(&mut self) -> Vec<String> {
        const END: &str = "end";
        self.publisher.command(&["PUBLISH", &self.channel, END]).await.unwrap();
        let mut heard = Vec::new();
        loop {
            let (channel, payload) = self.messages.next_message().await.unwrap();
            assert_eq!(channel, self.channel);
            if payload == END {
                return heard;
            }
            heard.push(String::from_utf8_lossy(&payload).into_owned());
        }
    }
}

/// A name that nobody else uses.
pub(crate) fn fresh_name() -> Name {
    Name::new(format!("scripts:{}", Uuid::new_v4()))
}

pub(crate) fn fresh_lock(kind: LockKind) -> LockKey {
    LockKey { kind, name: fresh_name() }
}

pub(crate) fn owner(number: u64) -> OwnerId {
    OwnerId::new(Uuid::from_u128(0xfe), number)
}

pub(crate) fn failure<T: std::fmt::Debug>(result: Result<T, BackendError>) -> Failure {
    result.expect_err("it fails").failure()
}
