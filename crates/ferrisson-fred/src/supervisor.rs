//! Keeps a client connected. fred reconnects by itself after an error of the connection, but not
//! always: its task can end, it does not leave a server that hangs, nor a sentinel that does.

use std::{sync::Arc, time::Duration};

use fred::{error::Error, interfaces::*, types::config::Server};
use tokio::{
    sync::broadcast::{self, error::TryRecvError},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    cluster::{self, Cure},
    link::{Link, Running},
};

const TICK: Duration = Duration::from_millis(100);
/// A reconnection stops all commands for a moment, so they are not too close.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);
const RECONNECT_LIMIT: Duration = Duration::from_millis(1500);
const REBUILD_PAUSE: Duration = Duration::from_millis(250);

type Errors = broadcast::Receiver<(Error, Option<Server>)>;

/// Looks after the client of a link until `stop`, then ends it.
pub(crate) async fn supervise(link: Arc<Link>, running: Running, stop: CancellationToken) {
    let errors = running.client.error_rx();
    let mut supervisor = Supervisor {
        link,
        running,
        errors,
        rotation: 0,
        cut_off: None,
        reconnected: None,
        rebuilt: None,
        failures: 0,
    };
    stop.run_until_cancelled(supervisor.run()).await;
    supervisor.link.replace(None);
    supervisor.running.end().await;
}

struct Supervisor {
    link: Arc<Link>,
    running: Running,
    errors: Errors,
    rotation: usize,
    /// Since when there is no connection.
    cut_off: Option<Instant>,
    reconnected: Option<Instant>,
    rebuilt: Option<Instant>,
    /// Reconnections in a row that did not succeed.
    failures: u32,
}

impl Supervisor {
    async fn run(&mut self) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = self.link.woken() => {}
            }
            self.step().await;
        }
    }

    async fn step(&mut self) {
        self.note_errors();
        if self.link.wants_rebuild() || self.running.task.is_finished() {
            self.rebuild();
        } else if self.running.client.is_connected() {
            if self.cut_off.take().is_some() {
                self.link.health().clear();
            }
            self.link.set_trouble(None);
            self.cure().await;
        } else {
            let cut_off = *self.cut_off.get_or_insert_with(Instant::now);
            if cut_off.elapsed() > self.link.patience() {
                self.rebuild();
            }
        }
    }

    /// Remembers why there is no connection.
    fn note_errors(&mut self) {
        loop {
            match self.errors.try_recv() {
                Ok((error, _)) => self.link.set_trouble(Some(error)),
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Leaves a connection that does not answer, or that somebody wants to be left.
    async fn cure(&mut self) {
        let suspects = self.link.health().suspects();
        let primary = self.running.client.sentinel_primary();
        let wanted = self.link.wants_reconnect(primary.as_ref());
        let nothing_to_do = !wanted && suspects.is_empty();
        if nothing_to_do || is_recent(self.reconnected, RECONNECT_PAUSE) {
            return;
        }
        self.reconnected = Some(Instant::now());
        let client = &self.running.client;
        let cure = async {
            if !wanted && client.is_clustered() {
                cluster::cure(self.link.plan(), client, &suspects).await
            } else {
                tracing::debug!("reconnecting: the connection does not answer, or leads elsewhere");
                client.force_reconnection().await.map(|()| Cure::Left)
            }
        };
        match timeout(RECONNECT_LIMIT, cure).await {
            Ok(Ok(Cure::Left)) => {
                self.failures = 0;
                self.link.carried_out();
                self.link.health().clear();
            }
            Ok(Ok(Cure::NewClient)) => self.rebuild(),
            Ok(Ok(Cure::Patience)) => {}
            Ok(Err(_)) | Err(_) => {
                self.failures += 1;
                if self.failures >= 2 {
                    self.rebuild();
                }
            }
        }
    }

    /// Takes a new client in place of one that is ended or stuck. An ended one must not be started
    /// again: its queue is never flushed after that.
    fn rebuild(&mut self) {
        if is_recent(self.rebuilt, REBUILD_PAUSE) {
            return;
        }
        tracing::debug!("replacing a client that is ended or stuck");
        self.rebuilt = Some(Instant::now());
        self.rotation = self.rotation.wrapping_add(1);
        self.failures = 0;
        self.cut_off = None;
        self.link.carried_out();
        self.running = Running::start(&self.link.next_plan(self.rotation), self.rotation);
        self.errors = self.running.client.error_rx();
        self.link.replace(Some(self.running.client.clone()));
    }
}

fn is_recent(last: Option<Instant>, pause: Duration) -> bool {
    last.is_some_and(|last| last.elapsed() < pause)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ferrisson_protocol::Command;
    use ferrisson_testkit::{poll_until, shared};
    use fred::types::config::{Config, ServerConfig};

    use super::*;
    use crate::{
        config::{Plan, Timeouts},
        lane::Lane,
        link::Source,
    };

    const PATIENCE: Duration = Duration::from_secs(10);

    fn plan() -> Plan {
        let server = ServerConfig::new_centralized("127.0.0.1", shared().port());
        let limit = Duration::from_secs(5);
        Plan::new(
            Config { server, ..Config::default() },
            Timeouts { command: limit, connect: limit },
        )
    }

    #[tokio::test]
    async fn a_client_whose_task_has_ended_is_replaced() {
        let plan = plan();
        let running = Running::connect(&plan).await.unwrap();
        let task = running.task.abort_handle();
        let link = Arc::new(Link::new(Source::Plan(plan), running.client.clone()));
        let lane = Lane::new(Arc::clone(&link));
        let stop = CancellationToken::new();
        let supervisor = tokio::spawn(supervise(Arc::clone(&link), running, stop.clone()));
        let get = Command { name: "GET", key: "ended".into(), args: vec![Bytes::from("ended")] };
        lane.call(&get).await.unwrap();

        let old = link.client().unwrap();
        task.abort();
        poll_until("the lane serves again", PATIENCE, async || lane.call(&get).await.is_ok()).await;
        assert_ne!(link.client().unwrap().id(), old.id());

        stop.cancel();
        supervisor.await.unwrap();
        assert!(link.client().is_none());
    }

    #[tokio::test]
    async fn a_new_client_is_made_on_order() {
        let plan = plan();
        let running = Running::connect(&plan).await.unwrap();
        let link = Arc::new(Link::new(Source::Plan(plan), running.client.clone()));
        let stop = CancellationToken::new();
        let _supervisor = tokio::spawn(supervise(Arc::clone(&link), running, stop.clone()));
        let _stop = stop.drop_guard();
        let old = link.client().unwrap();
        link.order_rebuild();
        poll_until("there is another", PATIENCE, async || {
            link.client().is_some_and(|client| client.id() != old.id() && client.is_connected())
        })
        .await;
        assert!(!link.wants_rebuild());
    }
}
