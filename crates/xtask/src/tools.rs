//! Running programs.

use std::{
    env, error,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(crate) type Result<T = ()> = std::result::Result<T, Box<dyn error::Error>>;

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let own =
        env::var_os("CARGO_MANIFEST_DIR").map_or(env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    own.ancestors().nth(2).map_or(own.clone(), Path::to_owned)
}

/// The folder for what tasks fetch and make.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs this task.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(args);
    command
}

/// Runs a program and shows what it prints.
pub(crate) fn run(command: &mut Command) -> Result {
    println!("$ {}", line(command));
    let status = command.status().map_err(|error| format!("{}: {error}", line(command)))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{} failed ({status})", line(command)).into())
    }
}

/// Whether a program ends well. What it prints is not shown.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// What a program prints.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err(format!("{} failed ({})", line(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Looks for a program on the path.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file())
}

fn line(command: &Command) -> String {
    let words: Vec<OsString> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_owned)
        .collect();
    words.join(OsStr::new(" ")).to_string_lossy().into_owned()
}
