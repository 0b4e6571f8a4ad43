//! What the proxy does to which command.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Target;
use crate::raw::Value;

/// A fault for the commands that match.
///
/// ```
/// use ferrisson_testkit::proxy::{Action, Rule};
///
/// // The second acquire of the lock is executed, but its client never learns of it.
/// let rule = Rule::on("EVALSHA").containing("orders:42").nth(2).then(Action::CutAfter);
/// ```
#[derive(Clone, Debug)]
pub struct Rule {
    name: Option<String>,
    part: Vec<u8>,
    nth: Option<u64>,
    action: Action,
    replay_after: Option<Duration>,
}

/// What happens to a command. What TCP cannot do does not happen: bytes are late or cut off, never
/// missing in between.
#[derive(Clone, Debug)]
pub enum Action {
    /// Nothing; the command is counted.
    Pass,
    /// The command, and what its connection sends after it, reaches the server later.
    Delay(Duration),
    /// The same, but until [`RuleHandle::release`].
    Hold,
    /// The client gets this reply, such as `-OOM no memory`; the server gets nothing.
    Answer(String),
    /// The connection is cut; the command is not executed.
    CutBefore,
    /// The command is executed, but instead of its reply the connection is cut.
    CutAfter,
    /// The command is executed; the connection is cut in the middle of its reply.
    CutWithin,
    /// From this command on nothing passes any more, but the connection stays open.
    BlackHole(Direction),
}

/// A direction on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From client to server: commands are not executed.
    Requests,
    /// From server to client: commands are executed, but nobody learns of it.
    Replies,
    /// Both.
    Both,
}

impl Rule {
    /// A rule for the commands of this name.
    #[must_use]
    pub fn on(name: &str) -> Self {
        Self { name: Some(name.to_ascii_uppercase()), ..Self::on_any() }
    }

    /// A rule for all commands.
    #[must_use]
    pub fn on_any() -> Self {
        Self { name: None, part: Vec::new(), nth: None, action: Action::Pass, replay_after: None }
    }

    /// Only commands one of whose arguments contains these bytes: a key, or the sum of a script.
    #[must_use]
    pub fn containing(mut self, part: impl AsRef<[u8]>) -> Self {
        self.part = part.as_ref().to_vec();
        self
    }

    /// Only the `n`-th command that matches from now on, counted from 1. Otherwise all of them.
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.nth = Some(n);
        self
    }

    /// What to do.
    #[must_use]
    pub fn then(mut self, action: Action) -> Self {
        self.action = action;
        self
    }

    /// Besides, the command reaches the server (once more) after this time, on a connection of its
    /// own: with [`Action::Pass`] as a duplicate, with [`Action::CutBefore`] as a late delivery.
    #[must_use]
    pub fn replay_after(mut self, delay: Duration) -> Self {
        self.replay_after = Some(delay);
        self
    }

    fn matches(&self, args: &[Bytes]) -> bool {
        let Some((name, rest)) = args.split_first() else { return false };
        let contains = |arg: &Bytes| arg.windows(self.part.len()).any(|part| part == self.part);
        let right_name =
            self.name.as_ref().is_none_or(|own| name.eq_ignore_ascii_case(own.as_bytes()));
        right_name && (self.part.is_empty() || rest.iter().any(contains))
    }
}

/// A rule at work. It stays at work when the handle is dropped, until [`RuleHandle::remove`].
#[derive(Clone, Debug)]
pub struct RuleHandle {
    state: Arc<RuleState>,
    target: Target,
}

impl RuleHandle {
    pub(super) fn new(state: Arc<RuleState>, target: Target) -> Self {
        Self { state, target }
    }

    /// How many commands have matched.
    #[must_use]
    pub fn matched(&self) -> u64 {
        self.state.counts.borrow().matched
    }

    /// How often the action is complete.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.state.counts.borrow().fired
    }

    /// Waits until `n` commands have matched.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn wait_matched(&self, n: u64) {
        // The sender lives in the state.
        let _ = self.state.counts.subscribe().wait_for(|counts| counts.matched >= n).await;
    }

    /// Waits until the action is complete `n` times: the connection cut, the reply lost. An action
    /// that takes its time, such as a delay, is complete when it has begun.
    ///
    /// # Cancel safety
    /// Nothing is left behind.
    pub async fn wait_fired(&self, n: u64) {
        let _ = self.state.counts.subscribe().wait_for(|counts| counts.fired >= n).await;
    }

    /// Lets go what [`Action::Hold`] holds; it holds nothing more after that.
    pub fn release(&self) {
        self.state.gate.cancel();
    }

    /// Sends the last command that the rule acted on to the server, on a connection of its own, and
    /// returns the reply that its client never sees.
    ///
    /// # Panics
    /// There was none, or the server does not answer.
    pub async fn replay(&self) -> Value {
        let stored = lock(&self.state.stored).clone().expect("the rule has acted on a command");
        self.target.send(&stored).await.expect("the server answers")
    }

    /// Ends the rule and lets go what it holds.
    pub fn remove(&self) {
        *lock(&self.state.removed) = true;
        self.release();
    }
}

#[derive(Debug)]
pub(super) struct RuleState {
    rule: Rule,
    counts: watch::Sender<Counts>,
    stored: Mutex<Option<Vec<Bytes>>>,
    removed: Mutex<bool>,
    pub(super) gate: CancellationToken,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    matched: u64,
    fired: u64,
}

impl RuleState {
    pub(super) fn new(rule: Rule) -> Self {
        Self {
            rule,
            counts: watch::Sender::default(),
            stored: Mutex::default(),
            removed: Mutex::new(false),
            gate: CancellationToken::new(),
        }
    }

    /// Counts the command; whether to act on it.
    pub(super) fn judge(&self, args: &[Bytes]) -> bool {
        if *lock(&self.removed) || !self.rule.matches(args) {
            return false;
        }
        let mut matched = 0;
        self.counts.send_modify(|counts| {
            counts.matched += 1;
            matched = counts.matched;
        });
        let acts = self.rule.nth.is_none_or(|nth| nth == matched);
        if acts {
            *lock(&self.stored) = Some(args.to_vec());
        }
        acts
    }

    pub(super) fn action(&self) -> &Action {
        &self.rule.action
    }

    pub(super) fn replay_after(&self) -> Option<Duration> {
        self.rule.replay_after
    }

    pub(super) fn fire(&self) {
        self.counts.send_modify(|counts| counts.fired += 1);
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
