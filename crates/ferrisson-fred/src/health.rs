use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use fred::types::config::Server;

use crate::link::locked;

/// Unanswered commands in a row that make a server suspect.
const SUSPICIOUS: u32 = 3;

/// Counts the commands without an answer: by server, since one that hangs is not cured by the
/// answers of the others. fred does not notice a hanging server while commands are sent to it.
#[derive(Default)]
pub(crate) struct Health {
    unanswered: Mutex<HashMap<Option<Server>, u32>>,
    any: AtomicBool,
}

impl Health {
    /// Notes an answer. `server` is only asked for when it matters.
    pub(crate) fn answered(&self, server: impl FnOnce() -> Option<Server>) {
        if self.any.load(Ordering::Relaxed) {
            let server = server();
            let mut unanswered = locked(&self.unanswered);
            unanswered.remove(&server);
            self.any.store(!unanswered.is_empty(), Ordering::Relaxed);
        }
    }

    /// Notes a command without an answer. `true` if the server is suspect now.
    pub(crate) fn unanswered(&self, server: Option<Server>) -> bool {
        let mut unanswered = locked(&self.unanswered);
        self.any.store(true, Ordering::Relaxed);
        let count = unanswered.entry(server).or_default();
        *count += 1;
        *count >= SUSPICIOUS
    }

    /// The servers that do not answer.
    pub(crate) fn suspects(&self) -> Vec<Option<Server>> {
        if !self.any.load(Ordering::Relaxed) {
            return Vec::new();
        }
        let unanswered = locked(&self.unanswered);
        let suspects = unanswered.iter().filter(|(_, count)| **count >= SUSPICIOUS);
        suspects.map(|(server, _)| server.clone()).collect()
    }

    pub(crate) fn clear(&self) {
        locked(&self.unanswered).clear();
        self.any.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: &'static str) -> Option<Server> {
        Some(Server::new(host, 6379))
    }

    #[test]
    fn a_server_is_suspect_after_three_silences_in_a_row() {
        let health = Health::default();
        for _ in 0..2 {
            health.unanswered(server("a"));
        }
        health.answered(|| server("a"));
        health.unanswered(server("a"));
        assert!(health.suspects().is_empty());
        health.unanswered(server("a"));
        assert!(health.unanswered(server("a")));
        assert_eq!(health.suspects(), [server("a")]);
    }

    #[test]
    fn answers_of_one_server_do_not_clear_another() {
        let health = Health::default();
        for _ in 0..SUSPICIOUS {
            health.unanswered(server("a"));
            health.answered(|| server("b"));
        }
        assert_eq!(health.suspects(), [server("a")]);
        health.clear();
        assert!(health.suspects().is_empty());
    }

    #[test]
    fn while_all_is_well_nobody_asks_for_the_server() {
        Health::default().answered(|| unreachable!("it costs time"));
    }
}
