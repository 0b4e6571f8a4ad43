use std::{
    fmt,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use async_trait::async_trait;
use ferrisson_core::backend::{BackendError, Wakeup};
use ferrisson_protocol::{CallError, Command, Connection, Reply};
use fred::error::Error;
use tokio::sync::Semaphore;
use tokio_util::{
    sync::{CancellationToken, DropGuard},
    task::TaskTracker,
};

use crate::{
    FredBuilder, checks,
    config::Plan,
    lane::Lane,
    link::{Link, Running, Source},
    outcome::NotSent,
    sentinel,
    subscriber::Subscriber,
    supervisor::supervise,
};

/// A connection to Redis or Valkey by the fred client.
///
/// Cheap to clone; clones share everything. When the last is dropped, or one is
/// [closed](Connection::close), all connections and tasks end.
///
/// It keeps one connection per [lane](FredBuilder::lanes) for commands and one for subscriptions
/// (for each primary of a cluster, one per lane), and with sentinels one to each of them. It
/// reconnects by itself, and leaves a server or sentinel that hangs.
#[derive(Clone)]
pub struct FredConnection {
    shared: Arc<Shared>,
}

struct Shared {
    lanes: Vec<Lane>,
    subscriber: Subscriber,
    in_flight: Semaphore,
    max_in_flight: usize,
    cluster: Arc<AtomicBool>,
    tasks: TaskTracker,
    token: CancellationToken,
    /// Stops the tasks, which never hold `Shared` itself.
    _stop: DropGuard,
}

impl FredConnection {
    /// A builder for the server, sentinels or cluster at this URL; see [`FredBuilder`].
    pub fn builder(url: impl Into<String>) -> FredBuilder {
        FredBuilder::new(url)
    }

    /// Connects all lanes, then the rest in the background.
    pub(crate) async fn connect(plan: &Plan, settings: &Settings) -> Result<Self, Error> {
        let lanes = (0..settings.lanes).map(|_| Running::connect(plan));
        let lanes = futures::future::try_join_all(lanes).await?;
        let cluster = AtomicBool::new(plan.is_cluster());
        checks::look(&lanes[0].client, plan, &cluster).await;
        Ok(Self::assemble(plan, settings, lanes, cluster))
    }

    /// Connects everything in the background.
    pub(crate) fn connect_lazy(plan: &Plan, settings: &Settings) -> Self {
        let lanes = (0..settings.lanes).map(|_| Running::start(plan, 0)).collect();
        let cluster = AtomicBool::new(plan.is_cluster());
        let this = Self::assemble(plan, settings, lanes, cluster);
        let shared = &this.shared;
        let link = Arc::clone(shared.lanes[0].link());
        shared.tasks.spawn(checks::look_later(link, Arc::clone(&shared.cluster)));
        this
    }

    fn assemble(
        plan: &Plan,
        settings: &Settings,
        lanes: Vec<Running>,
        cluster: AtomicBool,
    ) -> Self {
        let tasks = TaskTracker::new();
        let token = CancellationToken::new();
        let supervised = |source, running: Running| {
            let link = Arc::new(Link::new(source, running.client.clone()));
            tasks.spawn(supervise(Arc::clone(&link), running, token.clone()));
            link
        };
        let lanes: Vec<_> = lanes
            .into_iter()
            .map(|running| Lane::new(supervised(Source::Plan(plan.clone()), running)))
            .collect();
        let source = if plan.is_cluster() {
            // PUBLISH reaches every node, and one connection does not depend on all of them.
            Source::AnyNode { plan: plan.clone(), cluster: Arc::clone(lanes[0].link()) }
        } else {
            Source::Plan(plan.clone())
        };
        let running = Running::start(&source.plan(0), 0);
        let subscriber = Subscriber::start(supervised(source, running), &tasks);

        let links = lanes.iter().map(|lane| Arc::clone(lane.link()));
        let links: Vec<_> = links.chain([Arc::clone(subscriber.link())]).collect();
        sentinel::watch(plan, &links, &tasks, &token);
        tasks.close();
        Self {
            shared: Arc::new(Shared {
                lanes,
                subscriber,
                in_flight: Semaphore::new(settings.max_in_flight),
                max_in_flight: settings.max_in_flight,
                cluster: Arc::new(cluster),
                tasks,
                _stop: token.clone().drop_guard(),
                token,
            }),
        }
    }

    fn lane(&self, key: &[u8]) -> &Lane {
        let lanes = &self.shared.lanes;
        if let [lane] = lanes.as_slice() {
            return lane;
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(key);
        let lane = hash % lanes.len() as u64;
        &lanes[usize::try_from(lane).expect("it is less than a usize")]
    }
}

/// What a connection is made of, beside the plan of its clients.
pub(crate) struct Settings {
    pub(crate) lanes: usize,
    pub(crate) max_in_flight: usize,
}

#[async_trait]
impl Connection for FredConnection {
    async fn call(&self, command: Command) -> Result<Reply, CallError> {
        let shared = &self.shared;
        if shared.token.is_cancelled() {
            return Err(CallError::Closed);
        }
        let Ok(_permit) = shared.in_flight.try_acquire() else {
            let refused = NotSent::Backpressure { limit: shared.max_in_flight };
            return Err(CallError::NotExecuted(Box::new(refused)));
        };
        self.lane(&command.key).call(&command).await
    }

    async fn subscribe(&self, channel: &str) -> Result<Wakeup, BackendError> {
        self.shared.subscriber.subscribe(channel).await
    }

    fn is_cluster(&self) -> bool {
        self.shared.cluster.load(Ordering::Relaxed)
    }

    async fn close(&self) {
        self.shared.token.cancel();
        self.shared.tasks.wait().await;
    }
}

impl fmt::Debug for FredConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FredConnection")
            .field("lanes", &self.shared.lanes.len())
            .field("cluster", &self.is_cluster())
            .field("closed", &self.shared.token.is_cancelled())
            .finish_non_exhaustive()
    }
}
