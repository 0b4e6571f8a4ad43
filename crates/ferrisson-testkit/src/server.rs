//! Real servers for tests: one, with sentinels, or as a cluster.

mod builder;
mod cluster;
mod leash;
mod sentinel;

use std::{
    fs,
    path::PathBuf,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};

use nix::sys::signal::Signal;

pub(crate) use self::builder::free_port;
use self::leash::Leash;
pub use self::{
    builder::ServerBuilder,
    cluster::{Cluster, SlotMove, slot_of},
    sentinel::Sentinel,
};
use crate::raw::Raw;

/// A Redis or Valkey server of its own, on a free loopback port and with an empty directory.
///
/// Dropping it kills the process and removes the directory; so does the end of the test process,
/// also by `SIGKILL` and also for servers in statics.
#[derive(Debug)]
pub struct Server {
    config: ServerBuilder,
    port: u16,
    dir: PathBuf,
    leash: Mutex<Option<Leash>>,
}

/// The server that the tests of one test binary share, started on first use.
///
/// Works from several runtimes. A test that damages the server itself starts its own.
///
/// # Panics
/// No server can be started.
pub fn shared() -> &'static Server {
    static SHARED: OnceLock<Server> = OnceLock::new();
    SHARED.get_or_init(|| Server::builder().start_blocking())
}

impl Server {
    /// Starts a server with default settings, without persistence and without a password.
    ///
    /// # Panics
    /// No server can be started; the message says what to install.
    pub async fn start() -> Self {
        Self::builder().start().await
    }

    /// Settings for a server.
    #[must_use]
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The address for a client, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        match &self.config.password {
            Some(password) => format!("redis://:{password}@127.0.0.1:{}", self.port),
            None => format!("redis://127.0.0.1:{}", self.port),
        }
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password, if it has one.
    #[must_use]
    pub fn password(&self) -> Option<&str> {
        self.config.password.as_deref()
    }

    /// The process id.
    ///
    /// # Panics
    /// The server was killed and not restarted.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.leash().as_ref().map(Leash::pid).expect("the server runs")
    }

    /// A new connection for looking at the data.
    ///
    /// # Panics
    /// The server does not accept one.
    pub async fn raw(&self) -> Raw {
        let mut raw = Raw::connect(self.port).await.expect("the server accepts a connection");
        if let Some(password) = &self.config.password {
            raw.auth(password).await.expect("the password is right");
        }
        raw
    }

    /// Changes a setting of the running server.
    ///
    /// # Panics
    /// The server refuses it.
    pub async fn set_config(&self, name: &str, value: &str) {
        let reply = self.raw().await.command(&["CONFIG", "SET", name, value]).await;
        assert_eq!(reply.expect("the server answers").text(), "OK", "CONFIG SET {name} {value}");
    }

    /// Kills the process (`SIGKILL`); returns when its port is closed. The data directory stays.
    pub fn kill(&self) {
        if let Some(leash) = self.leash().take() {
            leash.end();
        }
    }

    /// Stops the process (`SIGSTOP`): connections stay open, nothing is answered.
    pub fn stop(&self) {
        self.signal(Signal::SIGSTOP);
    }

    /// Lets a stopped process go on (`SIGCONT`).
    pub fn cont(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Kills the process if it runs and starts it on the same port and directory. The data is
    /// there again as far as persistence was switched on.
    ///
    /// # Panics
    /// The server does not start.
    pub async fn restart(&self) {
        self.kill();
        let (config, dir, port) = (self.config.clone(), self.dir.clone(), self.port);
        let started = tokio::task::spawn_blocking(move || config.launch(&dir, port)).await;
        let leash = started.expect("starting does not panic").expect("the server starts again");
        *self.leash() = Some(leash);
    }

    /// What the server has logged.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    fn signal(&self, signal: Signal) {
        if let Some(leash) = &*self.leash() {
            leash.signal(signal);
        }
    }

    fn leash(&self) -> MutexGuard<'_, Option<Leash>> {
        self.leash.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let running = self.leash().take();
        drop(running);
        // The shell has done it unless the server was killed before.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn a_server_answers_with_its_password() {
        let server = Server::builder().password("123").start().await;
        assert_eq!(server.url(), format!("redis://:123@127.0.0.1:{}", server.port()));
        assert_eq!(server.raw().await.command(&["PING"]).await.unwrap().text(), "PONG");
        let mut stranger = Raw::connect(server.port()).await.unwrap();
        assert!(matches!(stranger.command(&["PING"]).await.unwrap(), crate::Value::Error(_)));
    }

    #[tokio::test]
    async fn a_dropped_server_leaves_no_process_and_no_directory() {
        let server = Server::start().await;
        let (port, dir) = (server.port(), server.dir.clone());
        assert!(dir.exists());
        server.stop();
        drop(server);
        assert!(Raw::connect(port).await.is_err());
        assert!(!dir.exists());
    }

    #[tokio::test]
    async fn the_leash_ends_a_stopped_server_when_its_holder_is_gone() {
        let server = Server::start().await;
        server.stop();
        let mut leash = server.leash().take().unwrap();
        // What the system does to the pipe of a killed process.
        drop(leash.close());
        leash.wait();
        assert!(Raw::connect(server.port()).await.is_err());
        assert!(!server.dir.exists());
    }

    #[tokio::test]
    async fn a_restarted_server_has_its_port_and_its_log_again() {
        let server = Server::builder().appendonly(true).start().await;
        server.raw().await.command(&["SET", "a", "1"]).await.unwrap();
        server.kill();
        assert!(Raw::connect(server.port()).await.is_err());
        server.restart().await;
        assert_eq!(server.raw().await.command(&["GET", "a"]).await.unwrap().int(), 1);
        server.set_config("appendfsync", "always").await;
    }

    #[tokio::test]
    async fn a_stopped_server_answers_when_it_goes_on() {
        let server = Server::start().await;
        let mut raw = server.raw().await;
        server.stop();
        raw.send(&["PING"]).await.unwrap();
        let silence = tokio::time::timeout(Duration::from_millis(100), raw.reply()).await;
        assert!(silence.is_err());
        server.cont();
        assert_eq!(raw.reply().await.unwrap().text(), "PONG");
    }

    #[test]
    fn the_shared_server_works_from_several_runtimes() {
        let threads = [1, 2].map(|_| {
            std::thread::spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                runtime.unwrap().block_on(async {
                    let pong = shared().raw().await.command(&["PING"]).await.unwrap();
                    assert_eq!(pong.text(), "PONG");
                    shared().pid()
                })
            })
        });
        let pids = threads.map(|thread| thread.join().unwrap());
        assert_eq!(pids[0], pids[1]);
    }
}
