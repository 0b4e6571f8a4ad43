//! Subscriptions whose signals pass through the faulty network.

use std::time::Duration;

use ferrisson_core::backend::{BackendError, Topic, Wakeup, WakeupHub};
use tokio::time;

use super::{Fate, FaultyBackend, Op, SimLink, sleep, unknown};

/// The one channel of a subscription's own hub.
const CHANNEL: &str = "signals";

impl FaultyBackend {
    pub(super) async fn subscribe_faultily(&self, topic: &Topic) -> Result<Wakeup, BackendError> {
        let fate = self.fate(Op::Subscribe);
        if let Some(failure) = fate.failure {
            return Err(BackendError::new(failure, "injected"));
        }
        if fate.is_cut {
            return Err(unknown());
        }
        let wakeup = time::timeout(self.command_timeout, self.subscribe_slowly(fate, topic)).await;
        let inner = wakeup.map_err(|_| unknown())??;
        Ok(self.forward(inner))
    }

    async fn subscribe_slowly(&self, fate: Fate, topic: &Topic) -> Result<Wakeup, BackendError> {
        sleep(fate.request_takes).await;
        if let Some(gate) = self.faults.gate(Op::Subscribe) {
            gate.pass().await;
        }
        if let Some(link) = &self.link {
            link.served().await;
        }
        let wakeup = self.inner.subscribe(topic).await?;
        if fate.request_lost || fate.reply_lost {
            // Ends the subscription when the caller gives up.
            std::future::pending::<()>().await;
        }
        sleep(fate.reply_takes).await;
        Ok(wakeup)
    }

    /// A subscription that gets those signals of `inner` that the network lets through.
    fn forward(&self, inner: Wakeup) -> Wakeup {
        let hub = WakeupHub::new();
        let outer = hub.register(CHANNEL);
        hub.set_live(CHANNEL, inner.is_live());
        let (faults, link) = (self.faults.clone(), self.link.clone());
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    biased;
                    () = hub.changed() => if !hub.has_waiters(CHANNEL) { return },
                    () = inner.notified() => {
                        let takes = link.as_ref().map_or(Some(Duration::ZERO), SimLink::signal);
                        if let (Some(takes), false) = (takes, faults.loses_signals()) {
                            sleep(takes).await;
                            hub.set_live(CHANNEL, inner.is_live());
                            hub.wake(CHANNEL);
                        }
                    }
                }
            }
        });
        outer
    }
}
