//! A Redis server for the tests: found, or installed with the system's package manager.

use std::{env, path::PathBuf, process::Command};

use crate::tools::{Result, find, output, run};

/// Names the server that tests start.
pub(crate) const VARIABLE: &str = "FERRISSON_REDIS_SERVER";

/// A package manager, and how it installs a server.
struct Manager {
    program: &'static str,
    /// Commands that are run one after the other, without the program's name.
    steps: &'static [&'static [&'static str]],
    needs_root: bool,
}

const MANAGERS: &[Manager] = &[
    Manager {
        program: "apt-get",
        steps: &[&["update"], &["install", "--yes", "--no-install-recommends", "redis-server"]],
        needs_root: true,
    },
    Manager { program: "dnf", steps: &[&["install", "--assumeyes", "redis"]], needs_root: true },
    Manager { program: "yum", steps: &[&["install", "--assumeyes", "redis"]], needs_root: true },
    Manager { program: "apk", steps: &[&["add", "redis"]], needs_root: true },
    Manager {
        program: "pacman",
        steps: &[&["--sync", "--refresh", "--needed", "--noconfirm", "valkey"]],
        needs_root: true,
    },
    Manager {
        program: "zypper",
        steps: &[&["--non-interactive", "install", "redis"]],
        needs_root: true,
    },
    Manager { program: "brew", steps: &[&["install", "redis"]], needs_root: false },
];

/// The server to test on. Installs one if there is none and `install` allows it.
pub(crate) fn ensure(install: bool) -> Result<PathBuf> {
    if let Some(path) = env::var_os(VARIABLE) {
        let path = PathBuf::from(path);
        let missing = || format!("{VARIABLE} names {}, which is not there", path.display());
        return if path.is_file() { Ok(path) } else { Err(missing().into()) };
    }
    if let Some(path) = installed() {
        return Ok(path);
    }
    let manager = MANAGERS.iter().find(|manager| find(manager.program).is_some());
    let (Some(manager), true) = (manager, install) else { return Err(advice(manager).into()) };
    println!("There is no redis-server here; installing it with {}.", manager.program);
    for step in manager.steps {
        let command = command(manager, step)?;
        // An old package list may do; the installation itself decides.
        if let (Err(error), true) = (run(&mut { command }), *step != ["update"]) {
            return Err(format!("{error}. {}", advice(Some(manager))).into());
        }
    }
    installed().ok_or_else(|| advice(Some(manager)).into())
}

/// The version that a server says it has.
pub(crate) fn version(server: &PathBuf) -> Result<String> {
    let text = output(Command::new(server).arg("--version"))?;
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    Ok(version.unwrap_or(text.trim()).to_owned())
}

fn installed() -> Option<PathBuf> {
    find("redis-server").or_else(|| find("valkey-server"))
}

fn command(manager: &Manager, step: &[&str]) -> Result<Command> {
    let is_root = || output(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0");
    let mut command = if !manager.needs_root || is_root() {
        Command::new(manager.program)
    } else if find("sudo").is_some() {
        let mut sudo = Command::new("sudo");
        sudo.arg(manager.program);
        sudo
    } else {
        return Err(format!(
            "{} needs root, and there is no sudo. {}",
            manager.program,
            advice(Some(manager))
        )
        .into());
    };
    command.args(step).env("DEBIAN_FRONTEND", "noninteractive");
    Ok(command)
}

fn advice(manager: Option<&Manager>) -> String {
    let how = manager.and_then(|manager| Some((manager.program, manager.steps.last()?)));
    let how = how.map_or_else(
        || "with the system's package manager".to_owned(),
        |(program, step)| format!("with `{program} {}`", step.join(" ")),
    );
    format!(
        "The tests need a Redis or Valkey server, 6.2 or newer. Install it {how}, \
         or name a binary in {VARIABLE}."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_names_the_package_and_the_variable() {
        let apt = MANAGERS.iter().find(|manager| manager.program == "apt-get");
        let advice = advice(apt);
        assert!(advice.contains("apt-get install") && advice.contains("redis-server"), "{advice}");
        assert!(advice.contains(VARIABLE), "{advice}");
    }
}
