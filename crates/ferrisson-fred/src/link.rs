use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fred::{
    clients::Client,
    error::Error,
    interfaces::ClientLike,
    types::{ConnectHandle, config::Server},
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    config::{self, Plan},
    health::Health,
};

const FOLLOW_TRIES: u32 = 5;

/// The place of a client that can be replaced, and what its supervisor has to know.
pub(crate) struct Link {
    source: Source,
    client: watch::Sender<Option<Client>>,
    health: Health,
    orders: Mutex<Orders>,
    trouble: Mutex<Option<Error>>,
    wake: Notify,
}

/// Where the clients of a link connect to.
pub(crate) enum Source {
    /// To what the plan says.
    Plan(Plan),
    /// To one node of the cluster that the plan is for: one that the user has named, or that the
    /// other link knows.
    AnyNode { plan: Plan, cluster: Arc<Link> },
}

/// A client whose connection task ends when this is dropped. The end of the client alone would not
/// end it.
pub(crate) struct Running {
    pub(crate) client: Client,
    pub(crate) task: AbortOnDropHandle<Result<(), Error>>,
}

/// What others ask the supervisor for.
#[derive(Default)]
struct Orders {
    reconnect: bool,
    rebuild: bool,
    /// The primary to be at, and the tries to get there. They end, for the server may be known by
    /// another name.
    follow: Option<(Server, u32)>,
}

impl Source {
    pub(crate) fn plan(&self, rotation: usize) -> Plan {
        match self {
            Self::Plan(plan) => plan.clone(),
            Self::AnyNode { plan, cluster } => {
                let mut nodes = plan.hosts();
                let known = cluster.client().map(|client| config::primaries(&client));
                nodes.extend(known.unwrap_or_default());
                plan.of_node(nodes.swap_remove(rotation % nodes.len()))
            }
        }
    }
}

impl Running {
    fn new(client: Client, task: ConnectHandle) -> Self {
        Self { client, task: AbortOnDropHandle::new(task) }
    }

    /// A client that goes on trying to connect.
    pub(crate) fn start(plan: &Plan, rotation: usize) -> Self {
        let client = plan.client(rotation, false);
        let task = client.connect();
        Self::new(client, task)
    }

    /// A client that is connected.
    ///
    /// A first sentinel that does not answer would keep fred from asking the others, so each of
    /// them is tried as the first.
    pub(crate) async fn connect(plan: &Plan) -> Result<Self, Error> {
        let limit = plan.timeouts().connect * 5;
        let deadline = Instant::now() + limit;
        let mut last = None;
        for rotation in 0..plan.rotations() {
            match timeout_at(deadline, Self::connect_once(plan, rotation)).await {
                Ok(Ok(running)) => return Ok(running),
                Ok(Err(error)) => last = Some(error),
                Err(_) => break,
            }
        }
        let late = || Error::new(fred::error::ErrorKind::Timeout, "no connection in time");
        Err(last.unwrap_or_else(late))
    }

    async fn connect_once(plan: &Plan, rotation: usize) -> Result<Self, Error> {
        let client = plan.client(rotation, true);
        let mut outcome = std::pin::pin!(client.wait_for_connect());
        // Listens before it starts, so that the outcome cannot be missed.
        if let std::task::Poll::Ready(early) = futures::poll!(outcome.as_mut()) {
            early?;
        }
        let running = Self::new(client.clone(), client.connect());
        outcome.await?;
        Ok(running)
    }

    /// Ends the connections and waits until they are closed.
    pub(crate) async fn end(self) {
        self.task.abort();
        // The result of a task that was told to stop says nothing.
        let _ = self.task.await;
    }
}

impl Link {
    pub(crate) fn new(source: Source, client: Client) -> Self {
        Self {
            source,
            client: watch::Sender::new(Some(client)),
            health: Health::default(),
            orders: Mutex::default(),
            trouble: Mutex::default(),
            wake: Notify::new(),
        }
    }

    pub(crate) const fn plan(&self) -> &Plan {
        match &self.source {
            Source::Plan(plan) | Source::AnyNode { plan, .. } => plan,
        }
    }

    /// The plan for the client after `rotation` others.
    pub(crate) fn next_plan(&self, rotation: usize) -> Plan {
        self.source.plan(rotation)
    }

    /// The client of the moment; `None` when the link has ended.
    pub(crate) fn client(&self) -> Option<Client> {
        self.client.borrow().clone()
    }

    /// The clients from now on.
    pub(crate) fn clients(&self) -> watch::Receiver<Option<Client>> {
        self.client.subscribe()
    }

    pub(crate) fn replace(&self, client: Option<Client>) {
        self.client.send_replace(client);
        self.health.clear();
    }

    pub(crate) const fn health(&self) -> &Health {
        &self.health
    }

    /// Asks for new connections of the same client, as soon as the last time is not too close.
    pub(crate) fn order_reconnect(&self) {
        locked(&self.orders).reconnect = true;
        self.wake.notify_one();
    }

    /// Asks for a new client.
    pub(crate) fn order_rebuild(&self) {
        locked(&self.orders).rebuild = true;
        self.wake.notify_one();
    }

    /// Asks for a connection to this primary, if it is to another one now.
    pub(crate) fn order_follow(&self, primary: Server) {
        locked(&self.orders).follow = Some((primary, FOLLOW_TRIES));
        self.wake.notify_one();
    }

    /// Whether the connection, which is to `primary` of some sentinels, is to be left.
    pub(crate) fn wants_reconnect(&self, primary: Option<&Server>) -> bool {
        let mut orders = locked(&self.orders);
        orders.follow.take_if(|(wanted, tries)| Some(&*wanted) == primary || *tries == 0);
        orders.reconnect || orders.follow.is_some()
    }

    pub(crate) fn wants_rebuild(&self) -> bool {
        locked(&self.orders).rebuild
    }

    /// The connections are new.
    pub(crate) fn carried_out(&self) {
        let mut orders = locked(&self.orders);
        orders.reconnect = false;
        orders.rebuild = false;
        if let Some((_, tries)) = &mut orders.follow {
            *tries -= 1;
        }
    }

    /// Waits for an order, or for a command that was not answered.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Why there is no connection, as far as known.
    pub(crate) fn trouble(&self) -> Option<Error> {
        locked(&self.trouble).clone()
    }

    pub(crate) fn set_trouble(&self, trouble: Option<Error>) {
        *locked(&self.trouble) = trouble;
    }

    /// Notes that a command was not answered in time by `server`.
    pub(crate) fn unanswered(&self, server: Option<Server>) {
        if self.health.unanswered(server) {
            self.wake.notify_one();
        }
    }

    /// How long the client may be without a connection before another is tried.
    pub(crate) fn patience(&self) -> Duration {
        match &self.source {
            Source::Plan(plan) => plan.timeouts().connect * 2,
            // There are other nodes, and any will do.
            Source::AnyNode { plan, .. } => plan.timeouts().connect,
        }
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
