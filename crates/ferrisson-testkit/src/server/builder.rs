//! Settings for a server, and its start.

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, BufRead, BufReader, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    ops::Range,
    path::{Path, PathBuf},
    sync::Mutex,
    time::{Duration, Instant},
};

use super::{Server, leash::Leash};

const START_TIMEOUT: Duration = Duration::from_secs(20);
/// Outside the range from which systems take ports for outgoing connections, so that a restarted
/// server gets its port back, and with room for the cluster bus at port + 10000.
const PORTS: Range<u16> = 10_000..20_000;

/// Settings for a [`Server`].
#[derive(Clone, Debug, Default)]
pub struct ServerBuilder {
    binary: Option<PathBuf>,
    port: Option<u16>,
    pub(super) password: Option<String>,
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

    pub(super) fn sentinel(mut self, config: &str) -> Self {
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
    pub(super) fn launch(&self, dir: &Path, port: u16) -> io::Result<Leash> {
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

/// The program to start: `FERRISSON_REDIS_SERVER`, or a server on the path.
fn find_binary() -> io::Result<PathBuf> {
    if let Some(path) = env::var_os("FERRISSON_REDIS_SERVER") {
        return Ok(path.into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let find = |name| env::split_paths(&path).map(|dir| dir.join(name)).find(|path| path.is_file());
    find("redis-server").or_else(|| find("valkey-server")).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::NotFound,
            "there is no redis-server on the path. `cargo xtask test` installs it, or: \
             apt-get install redis-server, dnf install redis, apk add redis, pacman -S redis, \
             brew install redis. FERRISSON_REDIS_SERVER names another binary, also of Valkey.",
        )
    })
}

/// A loopback port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
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
    stream.write_all(format!("{auth}PING\r\nINFO server\r\n").as_bytes()).ok()?;
    let mut ready = false;
    for line in BufReader::new(stream).lines() {
        let line = line.ok()?;
        ready |= line == "+PONG";
        if let Some(pid) = line.strip_prefix("process_id:") {
            return ready.then(|| pid.trim().parse().ok())?;
        }
    }
    None
}

#[expect(clippy::disallowed_methods, reason = "runs outside the runtime's workers")]
fn nap() {
    std::thread::sleep(Duration::from_millis(2));
}
