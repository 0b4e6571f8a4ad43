//! The gate: one stage after the other, with the time that each took.

use std::time::{Duration, Instant};

use clap::Args;

use crate::{
    check,
    servers::{self, Choice},
    test,
    tools::Result,
};

/// How strict to be.
#[derive(Args, Debug)]
pub(crate) struct Options {
    /// Fail if the further servers cannot be fetched, rather than leave their stage out.
    #[arg(long, env = "FERRISSON_REQUIRE_SERVERS")]
    require_servers: bool,
}

type Stage<'a> = (&'static str, Box<dyn Fn() -> Result<Verdict> + 'a>);

enum Verdict {
    Passed,
    /// With the reason.
    LeftOut(String),
}

/// Runs all stages; the first that fails ends it.
pub(crate) fn run(options: &Options) -> Result {
    let passed = |stage: fn() -> Result| move || stage().map(|()| Verdict::Passed);
    let stages: [Stage<'_>; 6] = [
        ("format", Box::new(passed(check::format))),
        ("lints", Box::new(passed(check::lints))),
        ("tests", Box::new(passed(|| test::suite(true, &[])))),
        ("servers", Box::new(|| further_servers(options.require_servers))),
        ("features", Box::new(passed(check::features))),
        ("docs", Box::new(passed(check::docs))),
    ];
    let mut rows = Vec::new();
    let mut failure = None;
    for (name, stage) in stages {
        println!("\n== {name}");
        let start = Instant::now();
        let result = stage();
        let took = start.elapsed();
        match result {
            Ok(Verdict::Passed) => rows.push((name, took, "passed".to_owned())),
            Ok(Verdict::LeftOut(why)) => rows.push((name, took, format!("left out: {why}"))),
            Err(error) => {
                rows.push((name, took, "FAILED".to_owned()));
                failure = Some(error);
                break;
            }
        }
    }
    print_table(&rows);
    failure.map_or(Ok(()), Err)
}

fn further_servers(required: bool) -> Result<Verdict> {
    match servers::available() {
        Err(why) if !required => Ok(Verdict::LeftOut(why.to_string())),
        Err(why) => Err(why),
        Ok(()) => servers::run(&[Choice::All]).map(|()| Verdict::Passed),
    }
}

fn print_table(rows: &[(&str, Duration, String)]) {
    println!("\n{:<10} {:>8}  result", "stage", "seconds");
    for (name, took, result) in rows {
        println!("{name:<10} {:>8.1}  {result}", took.as_secs_f32());
    }
    let total: Duration = rows.iter().map(|(_, took, _)| *took).sum();
    println!("{:<10} {:>8.1}", "total", total.as_secs_f32());
}
