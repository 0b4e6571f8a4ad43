//! What a compiler can find.

use std::process::Command;

use crate::tools::{self, Result, cargo, find, output, succeeds};

/// Checks format, lints, each feature of the facade alone, and documentation.
pub(crate) fn run() -> Result {
    format()?;
    lints()?;
    features()?;
    docs()
}

pub(crate) fn format() -> Result {
    ensure_component("fmt", "rustfmt")?;
    run_cargo(&["fmt", "--all", "--check"])
}

pub(crate) fn lints() -> Result {
    ensure_component("clippy", "clippy")?;
    let all = ["clippy", "--workspace", "--all-targets", "--all-features", "--"];
    tools::run(cargo(all).args(["-D", "warnings"]))
}

/// The facade builds with no feature and with each alone.
pub(crate) fn features() -> Result {
    let check = ["check", "--package", "ferrisson", "--no-default-features"];
    run_cargo(&check)?;
    for feature in facade_features()? {
        tools::run(cargo(check).args(["--features", &feature]))?;
    }
    Ok(())
}

pub(crate) fn docs() -> Result {
    let mut doc = cargo(["doc", "--workspace", "--no-deps", "--all-features"]);
    tools::run(doc.env("RUSTDOCFLAGS", "-D warnings"))
}

fn run_cargo(args: &[&str]) -> Result {
    tools::run(&mut cargo(args))
}

fn facade_features() -> Result<Vec<String>> {
    let metadata = output(&mut cargo(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().ok_or("metadata without packages")?;
    let facade = packages.iter().find(|package| package["name"] == "ferrisson");
    let features = facade.and_then(|facade| facade["features"].as_object());
    let features = features.ok_or("the facade has no features")?;
    Ok(features.keys().filter(|name| *name != "default").cloned().collect())
}

/// A minimal toolchain may come without the component.
fn ensure_component(subcommand: &str, component: &str) -> Result {
    if succeeds(cargo([subcommand]).arg("--version")) {
        return Ok(());
    }
    if find("rustup").is_none() {
        return Err(format!("cargo {subcommand} is missing; install {component}").into());
    }
    println!("cargo {subcommand} is missing; adding it with rustup.");
    tools::run(Command::new("rustup").args(["component", "add", component]))
}
