//! Medians and lines of text.

use std::time::Duration;

/// Operations that were done in a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rate {
    pub(crate) operations: u64,
    pub(crate) time: Duration,
}

impl Rate {
    pub(crate) fn per_second(self) -> f64 {
        self.operations as f64 / self.time.as_secs_f64()
    }
}

/// Prints a row that compares rates with a baseline measured in the same rounds.
pub(crate) fn compared(row: &str, baseline: &str, rounds: &[(f64, f64)]) {
    let own = median(rounds.iter().map(|(own, _)| *own));
    let base = median(rounds.iter().map(|(_, base)| *base));
    let ratio = median(rounds.iter().map(|(own, base)| own / base));
    let (low, high) = spread(rounds.iter().map(|(own, base)| own / base));
    println!(
        "{row:<46} {own:>9.0}/s   {baseline} {base:>9.0}/s   ratio {ratio:.2} ({low:.2}–{high:.2})"
    );
}

pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

fn spread(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::MAX, f64::MIN), |(low, high), value| (low.min(value), high.max(value)))
}
