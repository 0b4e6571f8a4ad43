use std::{sync::Arc, time::Duration};

use tokio::{
    runtime::Handle,
    time::{self, Instant},
};

use super::Context;
use crate::{
    backend::{
        ABANDON_MEMORY, BackendError, Failure, LockKey, PermitRecord, PermitRelease, Release, Topic,
    },
    name::Name,
    owner::OwnerId,
};

const MIN_BACKOFF: Duration = Duration::from_millis(20);
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// The identity of one acquisition while it is being tried.
///
/// Dropped after a request whose outcome is unknown, it sees to it in the background that nothing
/// of it stays and that the request, should it still be under way, wins nothing.
#[derive(Debug)]
pub(crate) struct Claim {
    context: Arc<Context>,
    object: Object,
    owner: OwnerId,
    ambiguous: bool,
}

/// What a claim is for.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Lock(LockKey),
    Permits {
        name: Name,
        permits: u32,
        /// Decided when the release begins: its repetitions must not say anything else.
        record: PermitRecord,
    },
}

impl Claim {
    pub(crate) fn new(context: &Arc<Context>, object: Object) -> Self {
        Self {
            context: Arc::clone(context),
            object,
            owner: context.owners.fresh(),
            ambiguous: false,
        }
    }

    pub(crate) const fn owner(&self) -> OwnerId {
        self.owner
    }

    /// Notes what a failed attempt of this claim leaves open.
    pub(crate) fn failed(&mut self, error: &BackendError) {
        self.ambiguous |= error.is_ambiguous();
    }

    /// The attempt has won: its owner and whether an earlier request may still be under way go to
    /// the hold, and this claim starts anew.
    pub(crate) fn won(&mut self) -> (OwnerId, bool) {
        let won = (self.owner, self.ambiguous);
        self.owner = self.context.owners.fresh();
        self.ambiguous = false;
        won
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.ambiguous {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        let (object, owner) = (self.object.clone(), self.owner);
        GiveBack { object, owner, tainted: true, was_held: true }.in_background(
            &self.context,
            &runtime,
            Instant::now() + ABANDON_MEMORY,
        );
    }
}

/// What was acquired, on its way back.
#[derive(Clone, Debug)]
pub(crate) struct GiveBack {
    pub(crate) object: Object,
    pub(crate) owner: OwnerId,
    /// A request of this owner may still be under way: it has to be abandoned as well.
    pub(crate) tainted: bool,
    /// Nobody has said that it was lost before this.
    pub(crate) was_held: bool,
}

impl GiveBack {
    /// Gives back, again and again until there is an answer or it is `until`. With an error the
    /// rest, up to `end`, is left to a background task.
    pub(crate) async fn run(
        self,
        context: &Arc<Context>,
        until: Instant,
        end: Instant,
    ) -> Result<Release, BackendError> {
        let result = self.persist(context, until).await;
        if let Err(error) = &result
            && until < end
            && self.is_repeatable()
            && is_worth_repeating(error)
        {
            self.in_background(context, &Handle::current(), end);
        }
        result
    }

    /// Gives back without anybody waiting for it, until it is `end`.
    pub(crate) fn in_background(self, context: &Arc<Context>, runtime: &Handle, end: Instant) {
        let shared = Arc::clone(context);
        let task = async move { drop(self.persist(&shared, end).await) };
        context.tasks.spawn_on(task, runtime);
    }

    /// Repeats until it is answered or it is `until`, but tries at least once. After the end of
    /// the client nothing is repeated.
    async fn persist(&self, context: &Context, until: Instant) -> Result<Release, BackendError> {
        let (mut backoff, mut ambiguous) = (MIN_BACKOFF, false);
        loop {
            let error = match self.once(context).await {
                // An earlier try of this very release may have been the one that did it.
                Ok(Release::NotHeld) if ambiguous && self.was_held => {
                    return Ok(self.done(context, Release::Released));
                }
                Ok(release) => return Ok(self.done(context, release)),
                Err(error) => error,
            };
            ambiguous |= error.is_ambiguous();
            let now = Instant::now();
            let repeat = now < until && self.is_repeatable() && is_worth_repeating(&error);
            if !repeat || context.closed.is_cancelled() {
                return Err(error);
            }
            let pause = context.jittered(backoff).min(until - now);
            backoff = (backoff * 2).min(MAX_BACKOFF);
            tokio::select! {
                biased;
                // One more try, at once: the end of the client does not wait for long.
                () = context.closed.cancelled() => {}
                () = time::sleep(pause) => {}
            }
        }
    }

    async fn once(&self, context: &Context) -> Result<Release, BackendError> {
        let (backend, owner) = (&context.backend, self.owner);
        match &self.object {
            Object::Lock(key) if self.tainted => backend.abandon(key, owner).await,
            Object::Lock(key) => backend.release(key, owner).await,
            Object::Permits { name, permits, record } => {
                let release = if self.tainted && *record == PermitRecord::Kept {
                    backend.abandon_permits(name, owner).await?
                } else {
                    backend.release_permits(name, owner, *permits, *record).await?
                };
                Ok(match release {
                    PermitRelease::Released => Release::Released,
                    PermitRelease::NotHeld => Release::NotHeld,
                })
            }
        }
    }

    fn done(&self, context: &Context, release: Release) -> Release {
        context.queues.released(&self.object.topic());
        release
    }

    /// Without a record a repeated release would give permits back twice.
    fn is_repeatable(&self) -> bool {
        !matches!(self.object, Object::Permits { record: PermitRecord::Expired, .. })
    }
}

impl Object {
    pub(crate) fn topic(&self) -> Topic {
        match self {
            Self::Lock(key) => Topic::Lock(key.clone()),
            Self::Permits { name, .. } => Topic::Semaphore(name.clone()),
        }
    }
}

/// Whether the same release can succeed later: not once the key belongs to something else.
fn is_worth_repeating(error: &BackendError) -> bool {
    !matches!(error.failure(), Failure::WrongType | Failure::Closed)
}
