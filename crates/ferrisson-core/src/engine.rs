//! The engine: everything that takes time, written once for all primitives and backends.
//!
//! | part | what it does |
//! | --- | --- |
//! | [`acquire`] | tries, subscribes, waits, tries again |
//! | [`queue`] | puts the tasks of one client that wait for one name in a row |
//! | [`completing`] | lets a request that was sent finish when its caller is gone |
//! | [`cleanup`] | releases and abandons in the background until it is confirmed |
//! | [`hold`] | what a guard knows of its lease: deadline, loss |
//! | [`keeper`] | the watchdog: renews leases in batches |

pub(crate) mod acquire;
pub(crate) mod cleanup;
pub(crate) mod completing;
pub(crate) mod hold;
pub(crate) mod keeper;
pub(crate) mod queue;

use std::{
    future::Future,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio_util::{sync::CancellationToken, task::TaskTracker};
use uuid::Uuid;

use self::{completing::Completing, keeper::Keeper, queue::Queues};
use crate::{
    backend::{Backend, BackendError},
    error::{Error, Result},
    name::Name,
    owner::OwnerIds,
};

/// What all handles, guards and background tasks of one client share.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) config: Config,
    pub(crate) owners: OwnerIds,
    pub(crate) queues: Queues,
    pub(crate) keeper: Keeper,
    pub(crate) tasks: TaskTracker,
    pub(crate) closed: CancellationToken,
    steps: AtomicU64,
}

/// The settings of a client. Checked when it is built.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) id: Uuid,
    pub(crate) namespace: Option<String>,
    pub(crate) watchdog_lease: Duration,
    pub(crate) poll_interval: Duration,
    pub(crate) patience: Duration,
    pub(crate) renewal_batch: usize,
}

impl Context {
    pub(crate) fn new(backend: Arc<dyn Backend>, config: Config) -> Self {
        Self {
            backend,
            owners: OwnerIds::new(config.id),
            config,
            steps: AtomicU64::new(0),
            queues: Queues::default(),
            keeper: Keeper::default(),
            tasks: TaskTracker::new(),
            closed: CancellationToken::new(),
        }
    }

    /// Refuses work for a name that cannot be used, and after the end.
    pub(crate) fn check(&self, name: &Name) -> Result<()> {
        name.check()?;
        if self.closed.is_cancelled() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Shortens a time by up to a fifth, so that processes do not move in step: what is promised as
    /// a limit stays one. Depends on nothing but the client's id and what it has done before, so
    /// that a simulation repeats.
    pub(crate) fn jittered(&self, time: Duration) -> Duration {
        let mut hasher = DefaultHasher::new();
        (self.owners.client(), self.steps.fetch_add(1, Ordering::Relaxed)).hash(&mut hasher);
        let percent = 80 + u32::try_from(hasher.finish() % 21).expect("below 21");
        time.saturating_mul(percent) / 100
    }

    /// One call of the backend, which finishes in the background if its caller is gone.
    pub(crate) async fn call<T, F, Fut>(
        self: &Arc<Self>,
        operation: &'static str,
        name: &Name,
        call: F,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: FnOnce(Arc<Self>, Name) -> Fut,
        Fut: Future<Output = Result<T, BackendError>> + Send + 'static,
    {
        self.check(name)?;
        Completing::new(self, call(Arc::clone(self), name.clone()))
            .await
            .map_err(|error| Error::of(operation, name, error))
    }
}
