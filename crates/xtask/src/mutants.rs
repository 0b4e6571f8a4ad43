//! Proof that the tests bite: each mutant is a fault that a test suite has to find.

mod list;

use std::{
    collections::BTreeSet,
    env, fs,
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};

use self::list::MUTANTS;
use crate::{
    redis,
    tools::{Result, cargo, output, root, target},
};

/// A suite that takes longer than this waits for something that the fault prevents.
const LIMIT: Duration = Duration::from_secs(300);

/// Which mutants, and where.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Only these.
    names: Vec<String>,
    /// Name the mutants, and stop.
    #[arg(long)]
    list: bool,
}

/// One fault, and who has to find it.
struct Mutant {
    name: &'static str,
    file: &'static str,
    /// Occurs once in the file.
    find: &'static str,
    replace: &'static str,
    /// Each fails with this fault.
    suites: &'static [Suite],
}

/// Arguments of `cargo test`: a target, and perhaps a part of the names of tests.
type Suite = &'static [&'static str];

/// How a suite took it.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// Tests that failed.
    Failed(usize),
    Hung,
    NotBuilt,
}

/// Runs the suites on the code as it is, then on each mutant of it.
pub(crate) fn run(options: &Options) -> Result {
    if options.list {
        MUTANTS.iter().for_each(|mutant| println!("{}", mutant.name));
        return Ok(());
    }
    let mutants: Vec<&Mutant> = MUTANTS
        .iter()
        .filter(|mutant| options.names.is_empty() || options.names.iter().any(|n| n == mutant.name))
        .collect();
    if mutants.is_empty() {
        return Err("no mutant of this name; see --list".into());
    }
    let field = Field::new()?;
    for mutant in &mutants {
        mutant.applied_in(&field.tree)?;
    }
    let suites: BTreeSet<Suite> = mutants.iter().flat_map(|m| m.suites).copied().collect();
    for suite in suites {
        let (verdict, took) = field.test(suite, "unchanged")?;
        println!("{:<34} {:>6.1} s  {verdict:?}", suite.join(" "), took.as_secs_f32());
        if verdict != Verdict::Passed {
            let log = field.log("unchanged").display().to_string();
            return Err(format!("the suite must pass without a fault; see {log}").into());
        }
    }
    let survivors = hunt(&field, &mutants)?;
    if survivors.is_empty() { Ok(()) } else { Err(format!("not found: {survivors:?}").into()) }
}

/// Runs all mutants and prints a table; answers which were not found.
fn hunt<'a>(field: &Field, mutants: &[&'a Mutant]) -> Result<Vec<&'a str>> {
    println!("\n{:<36} {:<28} {:>7}  verdict", "mutant", "suite", "seconds");
    let mut survivors = Vec::new();
    for mutant in mutants {
        let path = field.tree.join(mutant.file);
        let original = fs::read_to_string(&path)?;
        fs::write(&path, mutant.applied_in(&field.tree)?)?;
        let verdicts = mutant.suites.iter().map(|suite| (suite, field.test(suite, mutant.name)));
        for (suite, verdict) in verdicts {
            let (verdict, took) = verdict?;
            let suite = suite[1];
            let (name, found) = (mutant.name, verdict.is_found());
            println!("{name:<36} {suite:<28} {:>7.1}  {verdict:?}", took.as_secs_f32());
            if !found {
                survivors.push(name);
            }
        }
        fs::write(&path, original)?;
    }
    Ok(survivors)
}

impl Mutant {
    /// The text of its file with the fault.
    fn applied_in(&self, tree: &Path) -> Result<String> {
        let text = fs::read_to_string(tree.join(self.file))?;
        match text.matches(self.find).count() {
            1 => Ok(text.replace(self.find, self.replace)),
            n => Err(format!(
                "mutant {}: its text occurs {n} times in {}, not once",
                self.name, self.file
            )
            .into()),
        }
    }
}

impl Verdict {
    /// A fault that the compiler finds says nothing of the tests.
    fn is_found(&self) -> bool {
        matches!(self, Self::Failed(1..) | Self::Hung)
    }
}

/// A copy of the tracked files, to be damaged.
struct Field {
    tree: PathBuf,
    logs: PathBuf,
    server: PathBuf,
}

impl Field {
    fn new() -> Result<Self> {
        let logs = target().join("mutants");
        let tree = logs.join("tree");
        if tree.exists() {
            fs::remove_dir_all(&tree)?;
        }
        let files = output(Command::new("git").current_dir(root()).args(["ls-files", "-z"]))?;
        for file in files.split_terminator('\0') {
            let (from, to) = (root().join(file), tree.join(file));
            // Deleted, but not committed yet.
            if from.is_file() {
                fs::create_dir_all(to.parent().ok_or("a file has a folder")?)?;
                fs::copy(from, to)?;
            }
        }
        Ok(Self { tree, logs, server: redis::ensure(true)? })
    }

    fn log(&self, name: &str) -> PathBuf {
        self.logs.join(format!("{name}.log"))
    }

    fn test(&self, suite: Suite, name: &str) -> Result<(Verdict, Duration)> {
        let start = Instant::now();
        let path = self.log(name);
        let log = File::create(&path)?;
        let built = self.cargo("--no-run", suite, &log)?.status()?.success();
        if !built {
            return Ok((Verdict::NotBuilt, start.elapsed()));
        }
        let mut command = self.cargo("--no-fail-fast", suite, &log)?;
        // A group of its own, so that the tests end with cargo.
        let child = command.process_group(0).spawn()?;
        let verdict = match wait(child)? {
            Some(status) if status.success() => Verdict::Passed,
            Some(_) => {
                let text = fs::read_to_string(&path)?;
                Verdict::Failed(text.lines().filter(|line| line.ends_with("... FAILED")).count())
            }
            None => Verdict::Hung,
        };
        Ok((verdict, start.elapsed()))
    }

    fn cargo(&self, option: &str, suite: Suite, log: &File) -> Result<Command> {
        let mut command = cargo(["test", option, "--workspace", "--all-features"]);
        command.args(suite).current_dir(&self.tree);
        command.env("CARGO_TARGET_DIR", self.logs.join("target"));
        command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_TERM_COLOR", "never");
        command.env("CARGO_INCREMENTAL", "1").env("RUST_BACKTRACE", "0");
        command.env(redis::VARIABLE, &self.server);
        // What cargo tells this program about its own package.
        for (name, _) in
            env::vars_os().filter(|(n, _)| n.to_string_lossy().starts_with("CARGO_PKG_"))
        {
            command.env_remove(name);
        }
        command.stdout(log.try_clone()?).stderr(log.try_clone()?);
        Ok(command)
    }
}

/// Waits for a process; ends it, with all that it has started, when the limit is over.
fn wait(mut child: Child) -> Result<Option<ExitStatus>> {
    let start = Instant::now();
    while start.elapsed() < LIMIT {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        pause();
    }
    killpg(Pid::from_raw(child.id().try_into()?), Signal::SIGKILL)?;
    child.wait()?;
    Ok(None)
}

#[expect(clippy::disallowed_methods, reason = "there is no runtime here")]
fn pause() {
    thread::sleep(Duration::from_millis(50));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_still_fits_the_code() {
        for mutant in MUTANTS {
            if let Err(error) = mutant.applied_in(&root()) {
                panic!("{error}; change the mutant together with the code");
            }
        }
    }

    #[test]
    fn no_two_mutants_have_one_name() {
        let names: BTreeSet<&str> = MUTANTS.iter().map(|mutant| mutant.name).collect();
        assert_eq!(names.len(), MUTANTS.len());
    }

    #[test]
    fn a_fault_that_does_not_compile_is_not_found() {
        assert!(Verdict::Failed(1).is_found() && Verdict::Hung.is_found());
        assert!(!Verdict::NotBuilt.is_found() && !Verdict::Passed.is_found());
        assert!(!Verdict::Failed(0).is_found());
    }
}
