//! A proxy between client and server that breaks the network on command.
//!
//! It reads the commands that pass, so that a fault hits exactly the command it is meant for.
//!
//! ```no_run
//! # async fn example() {
//! use ferrisson_testkit::{Proxy, Server, proxy::{Action, Rule}};
//!
//! let server = Server::start().await;
//! let proxy = Proxy::to(&server).await;
//! let lost = proxy.add(Rule::on("EVALSHA").nth(1).then(Action::CutAfter));
//! // ... a client at proxy.url() ...
//! lost.wait_fired(1).await;
//! # }
//! ```

mod link;
mod resp;
mod rule;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

pub use self::rule::{Action, Direction, Rule, RuleHandle};
use self::{
    link::Link,
    rule::{RuleState, lock},
};
use crate::{
    Server,
    raw::{Raw, Value},
    server::free_port,
};

/// A proxy on a free loopback port. It ends, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

/// What happens to those who connect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Accepting {
    /// They are connected to the server.
    #[default]
    Yes,
    /// The port is closed.
    Refuse,
    /// They are accepted and cut off at once.
    Close,
    /// They are accepted and never answered.
    Silent,
}

impl Proxy {
    /// Starts a proxy in front of a server, on the current runtime.
    ///
    /// # Panics
    /// There is no free port.
    pub async fn to(server: &Server) -> Self {
        let target = Target { port: server.port(), password: server.password().map(str::to_owned) };
        let port = free_port();
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("the port is free");
        let shared = Arc::new(Shared::new(target));
        tokio::spawn(serve(Arc::clone(&shared), listener, port));
        Self { port, shared }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address for a client, with the server's password.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.shared.target.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// Puts a rule to work. Where several act on a command, the oldest wins; all of them count.
    #[must_use = "the handle tells what happened; `let _ =` where that does not matter"]
    pub fn add(&self, rule: Rule) -> RuleHandle {
        let state = Arc::new(RuleState::new(rule));
        lock(&self.shared.rules).push(Arc::clone(&state));
        RuleHandle::new(state, self.shared.target.clone())
    }

    /// Changes what happens to those who connect from now on. Returns when it is so.
    ///
    /// # Cancel safety
    /// The change happens.
    pub async fn set_accepting(&self, accepting: Accepting) {
        self.shared.accepting.send_replace(accepting);
        let mut applied = self.shared.applied.subscribe();
        // The sender lives as long as this proxy.
        let _ = applied.wait_for(|applied| *applied == accepting).await;
    }

    /// Cuts all connections.
    pub fn cut_all(&self) {
        for link in lock(&self.shared.links).values() {
            link.cut.cancel();
        }
    }

    /// Cuts the connections that have subscribed to something.
    pub fn cut_subscribers(&self) {
        for link in lock(&self.shared.links).values() {
            if link.subscriber.load(Ordering::Acquire) {
                link.cut.cancel();
            }
        }
    }

    /// Lets nothing pass any more on the connections that are open now; they stay open.
    pub fn black_hole_all(&self, direction: Direction) {
        for link in lock(&self.shared.links).values() {
            link.black_hole(direction);
        }
    }

    /// Holds back all traffic in a direction until [`Proxy::flow`]. The proxy reads nothing
    /// meanwhile, so that the sender's buffers fill.
    pub fn stall(&self, direction: Direction) {
        self.shared.stalled.send_replace(Some(direction));
    }

    /// Ends [`Proxy::stall`].
    pub fn flow(&self) {
        self.shared.stalled.send_replace(None);
    }

    /// Delays everything by these times, requests and replies.
    pub fn set_latency(&self, requests: Duration, replies: Duration) {
        *lock(&self.shared.latency) = (requests, replies);
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        lock(&self.shared.links).len()
    }

    /// How many commands of a name clients have sent.
    #[must_use]
    pub fn count(&self, name: &str) -> u64 {
        lock(&self.shared.counts).get(&name.to_ascii_uppercase()).copied().unwrap_or(0)
    }

    /// How many commands clients have sent, by name in capital letters. Unlike the statistics of
    /// the server this has nothing of what scripts call.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        lock(&self.shared.counts).clone()
    }

    /// Starts counting from zero.
    pub fn reset_counts(&self) {
        lock(&self.shared.counts).clear();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.closed.cancel();
        self.cut_all();
    }
}

/// Where the commands go.
#[derive(Clone, Debug)]
struct Target {
    port: u16,
    password: Option<String>,
}

impl Target {
    /// Sends one command on a connection of its own.
    async fn send(&self, args: &[Bytes]) -> io::Result<Value> {
        let mut raw = Raw::connect(self.port).await?;
        if let Some(password) = &self.password {
            raw.auth(password).await?;
        }
        raw.command(args).await
    }
}

#[derive(Debug)]
struct Shared {
    target: Target,
    rules: Mutex<Vec<Arc<RuleState>>>,
    links: Mutex<BTreeMap<u64, Arc<Link>>>,
    counts: Mutex<BTreeMap<String, u64>>,
    latency: Mutex<(Duration, Duration)>,
    stalled: watch::Sender<Option<Direction>>,
    accepting: watch::Sender<Accepting>,
    applied: watch::Sender<Accepting>,
    closed: CancellationToken,
}

impl Shared {
    fn new(target: Target) -> Self {
        Self {
            target,
            rules: Mutex::default(),
            links: Mutex::default(),
            counts: Mutex::default(),
            latency: Mutex::default(),
            stalled: watch::Sender::default(),
            accepting: watch::Sender::default(),
            applied: watch::Sender::default(),
            closed: CancellationToken::new(),
        }
    }

    /// Counts a command; the rule that acts on it.
    fn judge(&self, args: &[Bytes]) -> Option<Arc<RuleState>> {
        let name = args.first().map(|name| String::from_utf8_lossy(name).to_ascii_uppercase());
        *lock(&self.counts).entry(name.unwrap_or_default()).or_default() += 1;
        let mut acting = None;
        for rule in lock(&self.rules).iter() {
            if rule.judge(args) && acting.is_none() {
                acting = Some(Arc::clone(rule));
            }
        }
        if let Some(delay) = acting.as_ref().and_then(|rule| rule.replay_after()) {
            let (target, args) = (self.target.clone(), args.to_vec());
            tokio::spawn(async move {
                tokio::time::sleep(delay).await;
                // A server that is away by then gets nothing.
                let _ = target.send(&args).await;
            });
        }
        acting
    }

    fn due(&self, direction: Direction) -> Instant {
        let (requests, replies) = *lock(&self.latency);
        Instant::now() + if direction == Direction::Requests { requests } else { replies }
    }

    async fn until_flowing(&self, direction: Direction) {
        let mut stalled = self.stalled.subscribe();
        let flows = |stalled: &Option<Direction>| {
            stalled.is_none_or(|stalled| stalled != direction && stalled != Direction::Both)
        };
        // The sender lives in `self`.
        let _ = stalled.wait_for(flows).await;
    }

    fn register(&self, link: &Arc<Link>) -> u64 {
        let mut links = lock(&self.links);
        let id = links.last_key_value().map_or(0, |(id, _)| id + 1);
        links.insert(id, Arc::clone(link));
        id
    }

    fn unregister(&self, id: u64) {
        lock(&self.links).remove(&id);
    }
}

async fn serve(shared: Arc<Shared>, listener: TcpListener, port: u16) {
    let mut listener = Some(listener);
    let mut accepting = shared.accepting.subscribe();
    loop {
        let mode = *accepting.borrow_and_update();
        if mode == Accepting::Refuse {
            listener = None;
        } else if listener.is_none() {
            listener = TcpListener::bind(("127.0.0.1", port)).await.ok();
        }
        shared.applied.send_replace(mode);
        tokio::select! {
            () = shared.closed.cancelled() => return,
            _ = accepting.changed() => {}
            Some(client) = accept(listener.as_ref()) => welcome(&shared, client, mode),
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

fn welcome(shared: &Arc<Shared>, client: TcpStream, mode: Accepting) {
    match mode {
        Accepting::Yes => {
            let cut = shared.closed.child_token();
            tokio::spawn(link::run(Arc::clone(shared), client, cut));
        }
        Accepting::Silent => {
            let closed = shared.closed.clone();
            tokio::spawn(async move {
                closed.cancelled().await;
                drop(client);
            });
        }
        Accepting::Close | Accepting::Refuse => drop(client),
    }
}

#[cfg(test)]
mod tests;
