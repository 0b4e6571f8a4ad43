use std::{collections::BTreeMap, time::Duration};

use super::Violation;
use crate::history::{Claim, Ending, Interval};

/// Mutual exclusion: no two intervals of one name and different owners share a moment.
pub fn overlaps<'a>(intervals: impl IntoIterator<Item = &'a Interval>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for intervals in by_name(intervals).values() {
        let mut active: Vec<&Interval> = Vec::new();
        for &interval in intervals {
            active.retain(|other| other.to > interval.from);
            let others = active.iter().filter(|other| other.owner != interval.owner);
            let overlapping = others.filter(|other| other.intersects(interval));
            violations.extend(
                overlapping.map(|&other| Violation::Overlap(other.clone(), interval.clone())),
            );
            active.push(interval);
        }
    }
    violations
}

/// Safety of leases: at every moment of a claim the store has it for that owner.
#[must_use]
pub fn uncovered(claims: &[Claim], truths: &[Interval]) -> Vec<Violation> {
    let mut by_owner: BTreeMap<(&str, &str), Vec<&Interval>> = BTreeMap::new();
    for truth in truths {
        by_owner.entry((&truth.name, &truth.owner)).or_default().push(truth);
    }
    let mut violations = Vec::new();
    for Claim { interval, .. } in claims {
        let truths = by_owner.get(&(&*interval.name, &*interval.owner));
        let truths = truths.map_or(&[][..], Vec::as_slice);
        if !truths.iter().any(|truth| truth.covers(interval)) {
            let truths = truths.iter().copied().cloned().collect();
            violations.push(Violation::Uncovered(interval.clone(), truths));
        }
    }
    violations
}

/// Conservation of permits: at no time more than `limit` of a name are taken. One violation for
/// each name, at its first moment.
pub fn overbooked<'a>(
    intervals: impl IntoIterator<Item = &'a Interval>,
    limit: u64,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, intervals) in by_name(intervals) {
        let mut changes: Vec<(Duration, i64)> = Vec::new();
        for interval in intervals.iter().filter(|interval| interval.from < interval.to) {
            let permits = i64::from(interval.permits);
            changes.extend([(interval.from, permits), (interval.to, -permits)]);
        }
        // At one moment first what ends, then what begins.
        changes.sort_unstable();
        let mut taken: i64 = 0;
        for (at, change) in changes {
            taken += change;
            let permits = taken.unsigned_abs();
            if permits > limit {
                violations.push(Violation::Overbooked { name: name.into(), at, permits, limit });
                break;
            }
        }
    }
    violations
}

/// Timely loss: a participant is told of a loss before somebody else is granted the name.
#[must_use]
pub fn late_notices(claims: &[Claim], truths: &[Interval]) -> Vec<Violation> {
    let late = |(lost, next): &(&Interval, &Interval)| next.from < lost.to;
    let violation =
        |(lost, next): (&Interval, &Interval)| Violation::LateNotice(lost.clone(), next.clone());
    losses(claims, truths).into_iter().filter(late).map(violation).collect()
}

/// The shortest time from the moment when a loss was told to the next grant to somebody else, zero
/// if it was told too late. `None` if nothing was lost, or nobody else got it.
#[must_use]
pub fn min_notice(claims: &[Claim], truths: &[Interval]) -> Option<Duration> {
    let losses = losses(claims, truths).into_iter();
    losses.map(|(lost, next)| next.from.saturating_sub(lost.to)).min()
}

/// Lost claims, each with the next grant to somebody else.
fn losses<'a>(claims: &'a [Claim], truths: &'a [Interval]) -> Vec<(&'a Interval, &'a Interval)> {
    let truths = by_name(truths);
    let lost = claims.iter().filter(|claim| claim.ending == Ending::Lost);
    lost.filter_map(|Claim { interval, .. }| {
        let of_name = truths.get(&*interval.name)?;
        // Sorted by start. What began when the claim did can have come, and gone, before it.
        let first = of_name.partition_point(|truth| truth.from <= interval.from);
        let next = of_name[first..].iter().find(|truth| truth.owner != interval.owner)?;
        Some((interval, *next))
    })
    .collect()
}

/// Groups by name and sorts by start.
fn by_name<'a>(
    intervals: impl IntoIterator<Item = &'a Interval>,
) -> BTreeMap<&'a str, Vec<&'a Interval>> {
    let mut names: BTreeMap<&str, Vec<&Interval>> = BTreeMap::new();
    for interval in intervals {
        names.entry(&interval.name).or_default().push(interval);
    }
    for intervals in names.values_mut() {
        intervals.sort_by_key(|interval| (interval.from, interval.to));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(name: &str, owner: &str, from: u64, to: u64) -> Interval {
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
        Interval { name: name.into(), owner: owner.into(), permits: 1, from, to }
    }

    fn permits(owner: &str, permits: u32, from: u64, to: u64) -> Interval {
        Interval { permits, ..interval("x", owner, from, to) }
    }

    fn claim(owner: &str, from: u64, to: u64, ending: Ending) -> Claim {
        Claim { interval: interval("x", owner, from, to), token: None, ending }
    }

    #[test]
    fn an_overlap_of_two_owners_is_found() {
        let fine = [
            interval("x", "a", 0, 5),
            interval("x", "a", 2, 4),
            interval("x", "b", 5, 9),
            interval("y", "c", 0, 9),
            interval("x", "d", 7, 7),
        ];
        assert_eq!(overlaps(&fine), []);
        let planted = interval("x", "e", 1, 3);
        let found = overlaps(fine.iter().chain([&planted]));
        let expected = [
            Violation::Overlap(fine[0].clone(), planted.clone()),
            Violation::Overlap(planted, fine[1].clone()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn an_overlap_with_one_that_began_long_ago_is_found() {
        let long = interval("x", "a", 0, 100);
        let short: Vec<_> = (10..20).map(|at| interval("x", "a", at, at + 1)).collect();
        let planted = interval("x", "b", 99, 101);
        assert_eq!(overlaps(short.iter().chain([&planted, &long])).len(), 1);
    }

    #[test]
    fn a_claim_beyond_the_truth_is_found() {
        let truths = [interval("x", "a", 0, 5), interval("x", "b", 5, 8), interval("y", "a", 5, 9)];
        let within = [claim("a", 0, 5, Ending::Lost), claim("b", 6, 7, Ending::Released)];
        assert_eq!(uncovered(&within, &truths), []);
        let beyond = [
            claim("a", 1, 6, Ending::Released),
            claim("b", 4, 6, Ending::Released),
            claim("c", 1, 2, Ending::Released),
        ];
        assert_eq!(uncovered(&beyond, &truths).len(), 3);
    }

    #[test]
    fn too_many_permits_are_found() {
        let fine = [permits("a", 2, 0, 5), permits("b", 1, 1, 4), permits("c", 2, 5, 9)];
        assert_eq!(overbooked(&fine, 3), []);
        let at = Duration::from_secs(4);
        let expected = Violation::Overbooked { name: "x".into(), at, permits: 4, limit: 3 };
        let planted = permits("d", 2, 4, 6);
        assert_eq!(overbooked(fine.iter().chain([&planted]), 3), [expected]);
    }

    #[test]
    fn a_loss_that_is_told_after_the_next_grant_is_found() {
        let truths =
            [interval("x", "c", 1, 1), interval("x", "a", 1, 10), interval("x", "b", 12, 20)];
        let fine = [claim("a", 1, 9, Ending::Lost), claim("b", 13, 20, Ending::Lost)];
        assert_eq!(late_notices(&fine, &truths), []);
        assert_eq!(min_notice(&fine, &truths), Some(Duration::from_secs(3)));
        assert_eq!(min_notice(&fine[1..], &truths), None);
        let late = [claim("a", 1, 13, Ending::Lost)];
        assert!(matches!(late_notices(&late, &truths)[..], [Violation::LateNotice(..)]));
        assert_eq!(min_notice(&late, &truths), Some(Duration::ZERO));
    }
}
