//! A backend whose network can be told to fail, and how.

mod backend;
mod link;
mod script;
mod signals;

use std::{fmt, future::Future, sync::Arc, time::Duration};

use ferrisson_core::{
    Outcome, Refusal,
    backend::{Backend, BackendError, Failure},
};
use tokio::{sync::oneshot, time};

use self::script::Gate;
pub use self::{
    link::{LinkProfile, SimLink},
    script::{Faults, Held},
};

/// How long an operation may take unless [`FaultyBackend::with_command_timeout`] says otherwise.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);

/// The operations of a backend, for picking those that fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // Each is the method of that name.
pub enum Op {
    Acquire,
    Release,
    Abandon,
    Renew,
    SetHolds,
    Inspect,
    ForceRelease,
    AcquirePermits,
    ReleasePermits,
    AbandonPermits,
    AddPermits,
    InitPermits,
    DrainPermits,
    AvailablePermits,
    Get,
    Set,
    Replace,
    CompareAndSet,
    Take,
    Delete,
    Exists,
    Size,
    Expire,
    Ttl,
    Touch,
    Subscribe,
}

/// What goes wrong with one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The store answers that it will not do it.
    Refuse(Refusal),
    /// It certainly does not reach the store, and this is known at once.
    NotExecuted,
    /// It is never executed; the caller is told after the command timeout that nobody knows.
    LostRequest,
    /// It is executed; the caller is told after the command timeout that nobody knows.
    LostReply,
    /// The connection breaks: the caller is told at once that nobody knows, and the operation is
    /// executed this much later. A zombie.
    Late(Duration),
    /// It is executed this much later. The caller is told in time, or after the command timeout
    /// that nobody knows.
    SlowRequest(Duration),
    /// It is executed at once and the reply comes this much later.
    SlowReply(Duration),
    /// All goes well, and this much later it is executed once more.
    Duplicate(Duration),
}

/// Any backend behind a network that fails as it is told: by a script, through [`Faults`], or at
/// random, by a [`SimLink`].
///
/// Without either it is transparent. As in a real network, an operation whose reply does not come
/// within the command timeout fails with an unknown outcome, and may be executed all the same,
/// later too. All time is `tokio::time`.
///
/// ```
/// use ferrisson_core::Outcome;
/// use ferrisson_core::{Client, Error};
/// use ferrisson_memory::MemoryBackend;
/// use ferrisson_testkit::faulty::{Fault, FaultyBackend, Op};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Error> {
/// let backend = FaultyBackend::new(MemoryBackend::new());
/// let faults = backend.faults();
/// let bucket = Client::new(backend).bucket::<u32>("answer");
///
/// faults.fail_next(Op::Set, 1, Fault::LostReply);
/// let error = bucket.set(&42).await.unwrap_err();
/// assert!(matches!(error, Error::Unavailable { outcome: Outcome::Unknown, .. }));
/// assert_eq!(bucket.get().await?, Some(42));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct FaultyBackend {
    inner: Arc<dyn Backend>,
    faults: Faults,
    link: Option<SimLink>,
    command_timeout: Duration,
}

impl FaultyBackend {
    /// A transparent wrapper.
    pub fn new(inner: impl Backend) -> Self {
        Self::from_arc(Arc::new(inner))
    }

    /// A transparent wrapper of a backend that others use as well.
    #[must_use]
    pub fn from_arc(inner: Arc<dyn Backend>) -> Self {
        Self { inner, faults: Faults::default(), link: None, command_timeout: COMMAND_TIMEOUT }
    }

    /// Lets this network decide what happens to operations for which there is no script.
    #[must_use]
    pub fn with_link(mut self, link: SimLink) -> Self {
        self.link = Some(link);
        self
    }

    /// How long an operation may take. Default: 1 s.
    #[must_use]
    pub const fn with_command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// The handle by which operations are told to fail.
    #[must_use]
    pub fn faults(&self) -> Faults {
        self.faults.clone()
    }

    /// One operation and its way through the network.
    async fn call<T, F, Fut>(&self, op: Op, operation: F) -> Result<T, BackendError>
    where
        T: Send + 'static,
        F: Fn(Arc<dyn Backend>) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, BackendError>> + Send + 'static,
    {
        let fate = self.fate(op);
        if let Some(failure) = fate.failure {
            return Err(BackendError::new(failure, "injected"));
        }
        let gate = self.faults.gate(op);
        if gate.is_none() && fate == Fate::default() {
            return operation(Arc::clone(&self.inner)).await;
        }
        let (sender, reply) = oneshot::channel();
        let journey = Journey { fate, gate, link: self.link.clone() };
        tokio::spawn(journey.run(Arc::clone(&self.inner), operation, sender));
        if fate.is_cut {
            return Err(unknown());
        }
        match time::timeout(self.command_timeout, reply).await {
            Ok(Ok(result)) => result,
            // Lost on its way: the caller waits in vain.
            Ok(Err(_)) | Err(_) => Err(unknown()),
        }
    }

    fn fate(&self, op: Op) -> Fate {
        match self.faults.next(op) {
            Some(fault) => Fate::from(fault),
            None => self.link.as_ref().map_or_else(Fate::default, SimLink::fate),
        }
    }
}

impl fmt::Debug for FaultyBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultyBackend").field("inner", &self.inner).finish_non_exhaustive()
    }
}

fn unknown() -> BackendError {
    BackendError::new(Failure::Unavailable(Outcome::Unknown), "injected: no reply")
}

/// What happens to one operation. The default: all goes well, in no time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fate {
    /// Reported in place of an execution.
    failure: Option<Failure>,
    request_takes: Duration,
    request_lost: bool,
    reply_takes: Duration,
    reply_lost: bool,
    /// The caller is told at once that nobody knows.
    is_cut: bool,
    /// Executed once more, this much later.
    repeated_after: Option<Duration>,
}

impl From<Fault> for Fate {
    fn from(fault: Fault) -> Self {
        let mut fate = Self::default();
        match fault {
            Fault::Refuse(refusal) => fate.failure = Some(Failure::Refused(refusal)),
            Fault::NotExecuted => fate.failure = Some(Failure::Unavailable(Outcome::NotExecuted)),
            Fault::LostRequest => fate.request_lost = true,
            Fault::LostReply => fate.reply_lost = true,
            Fault::Late(time) => (fate.request_takes, fate.is_cut) = (time, true),
            Fault::SlowRequest(time) => fate.request_takes = time,
            Fault::SlowReply(time) => fate.reply_takes = time,
            Fault::Duplicate(time) => fate.repeated_after = Some(time),
        }
        fate
    }
}

/// The way of one operation to the store and of its reply back, whether or not anybody waits.
struct Journey {
    fate: Fate,
    gate: Option<Arc<Gate>>,
    link: Option<SimLink>,
}

impl Journey {
    async fn run<T, F, Fut>(
        self,
        inner: Arc<dyn Backend>,
        operation: F,
        reply: oneshot::Sender<Result<T, BackendError>>,
    ) where
        F: Fn(Arc<dyn Backend>) -> Fut,
        Fut: Future<Output = Result<T, BackendError>>,
    {
        let Self { fate, gate, link } = self;
        sleep(fate.request_takes).await;
        if let Some(gate) = gate {
            gate.pass().await;
        }
        if fate.request_lost {
            return lose(reply).await;
        }
        if let Some(link) = &link {
            link.served().await;
        }
        let result = operation(Arc::clone(&inner)).await;
        if fate.reply_lost {
            return lose(reply).await;
        }
        sleep(fate.reply_takes).await;
        // Nobody waits for a reply that comes too late.
        let _ = reply.send(result);
        if let Some(later) = fate.repeated_after {
            sleep(later).await;
            drop(operation(inner).await);
        }
    }
}

/// Keeps the caller waiting until it gives up.
async fn lose<T>(mut reply: oneshot::Sender<T>) {
    reply.closed().await;
}

/// Does not yield for no time at all.
async fn sleep(time: Duration) {
    if !time.is_zero() {
        time::sleep(time).await;
    }
}

#[cfg(test)]
mod tests;
