//! Real servers for tests: one, with sentinels, or as a cluster.

mod cluster;
mod leash;
mod sentinel;

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use nix::sys::signal::Signal;

use self::leash::Leash;
pub use self::{
    cluster::{Cluster, SlotMove, slot_of},
    sentinel::Sentinel,
};
use crate::raw::Raw;

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Outside the range from which systems take ports for outgoing connections, so that a restarted
/// server gets its port back, and with room for the cluster bus at port + 10000.
const PORTS: std::ops::Range<u16> = 10_000..20_000;

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

/// Settings for a [`Server`].
#[derive(Clone, Debug, Default)]
pub struct ServerBuilder {
    binary: Option<PathBuf>,
    port: Option<u16>,
    password: Option<String>,
    appendonly: bool,
    args: Vec<String>,
    /// The text of a configuration file, which a sentinel needs.
    sentinel: Option<String>,
}

impl ServerBuilder {
    /// The program, instead of `FERRISSON_REDIS_SERVER` or `redis-server` on the path.
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// A fixed port instead of a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// The password of the default user.
    #[must_use]
    pub fn password(mut self, password: &str) -> Self {
        self.password = Some(password.to_owned());
        self
    }

    /// Whether every write goes to a log that survives a restart. Off at first.
    #[must_use]
    pub fn appendonly(mut self, on: bool) -> Self {
        self.appendonly = on;
        self
    }

    /// One more command-line argument, such as `--maxmemory` and then `1mb`.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Starts the server; returns when it answers.
    ///
    /// # Panics
    /// No server can be started; the message says what to install, or what the server logged.
    pub async fn start(self) -> Server {
        tokio::task::spawn_blocking(move || self.start_blocking()).await.unwrap_or_else(|error| {
            match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => panic!("the runtime ended: {error}"),
            }
        })
    }

    /// The same without a runtime.
    ///
    /// # Panics
    /// As [`ServerBuilder::start`].
    #[must_use]
    pub fn start_blocking(self) -> Server {
        match self.try_start() {
            Ok(server) => server,
            Err(error) => panic!("no server for this test: {error}"),
        }
    }

    pub(crate) fn sentinel(mut self, config: &str) -> Self {
        self.sentinel = Some(config.to_owned());
        self
    }

    fn try_start(self) -> io::Result<Server> {
        loop {
            let port = self.port.unwrap_or_else(free_port);
            let dir = tempfile::Builder::new().prefix("ferrisson-").tempdir()?;
            match self.launch(dir.path(), port) {
                // Another process was faster.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && self.port.is_none() => {}
                Err(error) => return Err(error),
                Ok(leash) => {
                    let (dir, leash) = (dir.keep(), Mutex::new(Some(leash)));
                    return Ok(Server { config: self, port, dir, leash });
                }
            }
        }
    }

    /// Starts a process and waits until it answers.
    fn launch(&self, dir: &Path, port: u16) -> io::Result<Leash> {
        let binary = self.binary.clone().map_or_else(find_binary, Ok)?;
        let log = dir.join("log");
        fs::write(&log, "")?;
        let leash = Leash::start(dir, &binary, &self.command_line(dir, port)?)?;
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            match process_behind(port, self.password.as_deref()) {
                Some(pid) if pid == leash.pid() => return Ok(leash),
                Some(_) => return Err(io::ErrorKind::AddrInUse.into()),
                None => {}
            }
            let log = fs::read_to_string(&log)?;
            if log.contains("Address already in use") {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            if Instant::now() > deadline || log.contains("FATAL CONFIG") {
                let binary = binary.display();
                return Err(io::Error::other(format!("{binary} does not answer; it says:\n{log}")));
            }
            nap();
        }
    }

    fn command_line(&self, dir: &Path, port: u16) -> io::Result<Vec<OsString>> {
        let mut args: Vec<OsString> = Vec::new();
        if let Some(config) = &self.sentinel {
            let path = dir.join("sentinel.conf");
            if !path.exists() {
                fs::write(&path, config)?;
            }
            args.extend([path.into(), "--sentinel".into()]);
        } else {
            let appendonly = if self.appendonly { "yes" } else { "no" };
            args.extend(["--save", "", "--appendonly", appendonly].map(OsString::from));
        }
        let port = port.to_string();
        args.extend(["--port", &port, "--bind", "127.0.0.1", "--dir"].map(OsString::from));
        args.push(dir.into());
        if let Some(password) = &self.password {
            args.extend(["--requirepass", password].map(OsString::from));
        }
        args.extend(self.args.iter().map(OsString::from));
        Ok(args)
    }
}

/// The program to start: `FERRISSON_REDIS_SERVER`, or `redis-server` on the path.
fn find_binary() -> io::Result<PathBuf> {
    if let Some(path) = env::var_os("FERRISSON_REDIS_SERVER") {
        return Ok(path.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join("redis-server")).find(|p| p.is_file());
    found.ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "there is no redis-server on the path. `cargo xtask test` installs it, or: \
             apt-get install redis-server, dnf install redis, apk add redis, pacman -S redis, \
             brew install redis. FERRISSON_REDIS_SERVER names another binary, also of Valkey.",
        )
    })
}

fn free_port() -> u16 {
    loop {
        let port = rand::random_range(PORTS);
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
}

/// The id of the process that answers on a port and has loaded its data.
fn process_behind(port: u16, password: Option<&str>) -> Option<u32> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    let auth = password.map_or(String::new(), |password| format!("AUTH {password}\r\n"));
    stream.write_all(format!("{auth}PING\r\nINFO server\r\nQUIT\r\n").as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let pid = text.lines().find_map(|line| line.strip_prefix("process_id:"))?;
    text.contains("+PONG").then(|| pid.trim().parse().ok())?
}

#[expect(clippy::disallowed_methods, reason = "runs outside the runtime's workers")]
fn nap() {
    std::thread::sleep(Duration::from_millis(2));
}

#[cfg(test)]
mod tests {
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
