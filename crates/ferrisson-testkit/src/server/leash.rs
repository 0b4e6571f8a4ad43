//! Child processes that cannot outlive the test process.

use std::{
    ffi::OsString,
    io::{self, BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
};

use nix::{
    sys::signal::{self, Signal},
    unistd::Pid,
};

/// The shell between the test process and a server.
///
/// It reads from a pipe whose other end only the test process holds. The read ends when that end
/// is closed, however the test process ends: then the server is killed, stopped or not, and its
/// directory removed. The word `keep` ends the server only, so that another one can start there.
const SCRIPT: &str = r#"
dir=$1; shift
"$@" >>"$dir/log" 2>&1 &
echo $!
read -r word
kill -9 $! 2>/dev/null
wait 2>/dev/null
[ "$word" = keep ] || rm -rf "$dir"
"#;

/// A running server process on its leash. Dropping it kills the server and removes its directory.
#[derive(Debug)]
pub(crate) struct Leash {
    shell: Child,
    stdin: Option<ChildStdin>,
    server: Pid,
}

impl Leash {
    /// Starts `program` with a log at `dir/log`.
    pub(crate) fn start(dir: &Path, program: &Path, args: &[OsString]) -> io::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT, "leash"])
            .arg(dir)
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A signal to the test's process group must not end the shell before the server.
            .process_group(0)
            .spawn()?;
        let stdin = shell.stdin.take();
        let mut line = String::new();
        if let Some(stdout) = shell.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let pid = line.trim().parse().map_err(|_| io::Error::other("the shell named no pid"))?;
        Ok(Self { shell, stdin, server: Pid::from_raw(pid) })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.as_raw().unsigned_abs()
    }

    /// Sends a signal. The shell reaps the server only at its own end, so the pid stays ours.
    pub(crate) fn signal(&self, signal: Signal) {
        // A server that is dead already is no error.
        let _ = signal::kill(self.server, signal);
    }

    /// Takes the end of the pipe that keeps the server alive.
    pub(super) fn close(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    pub(super) fn wait(&mut self) {
        let _ = self.shell.wait();
    }

    /// Kills the server and keeps its directory.
    pub(crate) fn end(mut self) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(b"keep\n");
        }
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
        drop(self.close());
        self.wait();
    }
}
