//! Clients on real servers, and a broken network between them.

use std::time::Duration;

use ferrisson_core::{
    Client, LockGuard, Name, OwnerId,
    backend::{
        Attempt, BackendError, Lifecycle, LockBackend, LockKey,
        LockKind::{Plain, Reentrant},
        PermitRecord, RenewalRequest, SemaphoreBackend,
    },
};
use ferrisson_fred::FredConnection;
use ferrisson_protocol::RedisBackend;
use ferrisson_testkit::{Proxy, Raw, Server, poll_until, server::ServerBuilder, shared};
use tokio::{sync::OnceCell, time::timeout};
use uuid::Uuid;

/// The limit of a command: short enough to wait for, long enough for a busy machine.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a test waits for what has to happen soon. Only a failing test waits that long.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A lease or a wait that no test sees the end of.
pub const LONG: Duration = Duration::from_secs(600);

/// The backend on the server at `url`.
///
/// # Panics
/// The server does not answer.
pub async fn backend(url: &str) -> RedisBackend<FredConnection> {
    let builder = FredConnection::builder(url)
        .command_timeout(COMMAND_TIMEOUT)
        .connect_timeout(Duration::from_secs(2));
    RedisBackend::new(builder.connect().await.expect("the server answers"))
}

/// A client of the server at `url`, with the default settings.
///
/// # Panics
/// The server does not answer.
pub async fn client(url: &str) -> Client {
    Client::new(backend(url).await)
}

/// A server of its own, and a proxy in front of it.
#[derive(Debug)]
pub struct Testbed {
    /// The server.
    pub server: Server,
    /// The broken network.
    pub proxy: Proxy,
}

impl Testbed {
    /// Starts a server that knows the scripts already, so that the next command of an operation is
    /// the one that does it.
    ///
    /// # Panics
    /// No server can be started.
    pub async fn start() -> Self {
        Self::on(Server::start().await).await
    }

    /// The same in front of this server.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn on(server: Server) -> Self {
        load_scripts(&server).await;
        let proxy = Proxy::to(&server).await;
        Self { server, proxy }
    }

    /// A client that reaches the server directly.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn near(&self) -> Client {
        client(&self.server.url()).await
    }

    /// A client that reaches the server through the proxy.
    ///
    /// # Panics
    /// The server does not answer.
    pub async fn far(&self) -> Client {
        client(&self.proxy.url()).await
    }
}

/// A server that has written to its log what it acknowledges. With `everysec`, the default, it
/// does not wait for a slow disk, and a crash can then cost it what it has acknowledged.
#[must_use]
pub fn server_with_log() -> ServerBuilder {
    Server::builder().appendonly(true).arg("--appendfsync").arg("always")
}

/// Runs every script once, and leaves no key.
///
/// # Panics
/// The server does not answer.
pub async fn load_scripts(server: &Server) {
    let backend = backend(&server.url()).await;
    let warm_up = warm_up(&backend).await;
    warm_up.expect("every operation works on an empty server");
    backend.close().await;
    let mut raw = server.raw().await;
    for key in raw.keys_like("*warm-up*").await.expect("the server answers") {
        raw.command(&["DEL", &key]).await.expect("the server answers");
    }
}

async fn warm_up(backend: &RedisBackend<FredConnection>) -> Result<(), BackendError> {
    let name = Name::new("warm-up");
    for kind in [Reentrant, Plain] {
        let owner = OwnerId::new(Uuid::new_v4(), 1);
        let lock = LockKey { kind, name: name.clone() };
        assert!(matches!(backend.acquire(&lock, owner, LONG).await?, Attempt::Acquired { .. }));
        if kind == Reentrant {
            backend.set_holds(&lock, owner, 2).await?;
        }
        let request = RenewalRequest { lock: lock.clone(), owner, lease: LONG };
        for renewal in backend.renew(&[request]).await {
            renewal?;
        }
        backend.inspect(&lock).await?;
        backend.release(&lock, owner).await?;
        backend.abandon(&lock, owner).await?;
        backend.force_release(&lock).await?;
    }
    let owner = OwnerId::new(Uuid::new_v4(), 1);
    backend.init_permits(&name, 2).await?;
    backend.acquire_permits(&name, owner, 1).await?;
    backend.release_permits(&name, owner, 1, PermitRecord::Kept).await?;
    backend.abandon_permits(&name, owner).await?;
    backend.add_permits(&name, 1, true).await?;
    backend.drain_permits(&name).await?;
    Ok(())
}

/// The hash that stands for a lock on the server: its owners and how often each has entered it.
///
/// # Panics
/// The server does not answer.
pub async fn holders(raw: &mut Raw, name: &str) -> Vec<(String, String)> {
    raw.hash(name).await.expect("the server answers").into_iter().collect()
}

/// Whether exactly this guard has the lock, entered once.
///
/// # Panics
/// The server does not answer.
pub async fn is_held_by(raw: &mut Raw, guard: &LockGuard) -> bool {
    let expected = [(guard.owner().to_string(), "1".to_owned())];
    holders(raw, guard.name().as_str()).await == expected
}

/// The time to live of a key in ms, as `PTTL` answers it.
///
/// # Panics
/// The server does not answer.
pub async fn pttl(raw: &mut Raw, key: &str) -> i64 {
    raw.command(&["PTTL", key]).await.expect("the server answers").int()
}

/// The number of permits, as the server has it.
///
/// # Panics
/// The server does not answer, or the semaphore does not exist.
pub async fn permits(raw: &mut Raw, name: &str) -> i64 {
    raw.command(&["GET", name]).await.expect("the server answers").int()
}

/// The output of what has to end soon.
///
/// # Panics
/// It does not.
pub async fn soon<F: Future>(future: F) -> F::Output {
    timeout(PATIENCE, future).await.expect("it ends in time")
}

/// Waits until a key is gone.
///
/// # Panics
/// It stays.
pub async fn until_gone(raw: &mut Raw, key: &str) {
    poll_until(&format!("{key} is gone"), PATIENCE, async || pttl(raw, key).await == -2).await;
}

/// Waits until so many clients are subscribed to a channel.
///
/// # Panics
/// They do not come, or do not go.
pub async fn until_subscribed(raw: &mut Raw, channel: &str, clients: u64) {
    let what = format!("{clients} clients are subscribed to {channel}");
    poll_until(&what, PATIENCE, async || {
        raw.subscribers(channel).await.expect("the server answers") == clients
    })
    .await;
}

/// The server that the tests of one binary share, with all scripts loaded.
///
/// # Panics
/// No server can be started.
pub async fn warm_server() -> &'static Server {
    static WARM: OnceCell<()> = OnceCell::const_new();
    WARM.get_or_init(|| load_scripts(shared())).await;
    shared()
}
