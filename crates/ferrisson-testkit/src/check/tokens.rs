use std::collections::BTreeMap;

use super::Violation;
use crate::history::Claim;

/// Fencing: the token of a claim is greater than that of every claim of its name that had ended
/// before it began. Claims without a token are left out.
#[must_use]
pub fn token_regressions(claims: &[Claim]) -> Vec<Violation> {
    let mut names: BTreeMap<&str, Vec<(&Claim, u64)>> = BTreeMap::new();
    for claim in claims {
        let Some(token) = claim.token else { continue };
        names.entry(&claim.interval.name).or_default().push((claim, token));
    }
    let mut violations = Vec::new();
    for mut claims in names.into_values() {
        claims.sort_by_key(|(claim, _)| claim.interval.from);
        let mut ended = claims.clone();
        ended.sort_by_key(|(claim, _)| claim.interval.to);
        let mut ended = ended.into_iter().peekable();
        let mut greatest: Option<(&Claim, u64)> = None;
        for (claim, token) in claims {
            while let Some(before) =
                ended.next_if(|(before, _)| before.interval.to <= claim.interval.from)
            {
                if before.0 != claim && greatest.is_none_or(|(_, greatest)| before.1 > greatest) {
                    greatest = Some(before);
                }
            }
            if let Some((before, greatest)) = greatest
                && token <= greatest
            {
                violations.push(Violation::TokenRegression(before.clone(), claim.clone()));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::history::{Ending, Interval};

    fn claim(name: &str, from: u64, to: u64, token: Option<u64>) -> Claim {
        let (from, to) = (Duration::from_secs(from), Duration::from_secs(to));
        let owner = format!("{token:?}");
        let interval = Interval { name: name.into(), owner, permits: 1, from, to };
        Claim { interval, token, ending: Ending::Released }
    }

    #[test]
    fn a_token_that_does_not_grow_is_found() {
        let fine = [
            claim("x", 0, 2, Some(5)),
            claim("x", 2, 4, None),
            claim("x", 4, 9, Some(8)),
            claim("y", 5, 6, Some(1)),
            // While the other goes on, either order is possible.
            claim("x", 6, 7, Some(6)),
        ];
        assert_eq!(token_regressions(&fine), []);
        for token in [8, 7, 0] {
            let planted = claim("x", 9, 10, Some(token));
            let claims: Vec<_> = fine.iter().cloned().chain([planted.clone()]).collect();
            let expected = Violation::TokenRegression(fine[2].clone(), planted);
            assert_eq!(token_regressions(&claims), [expected]);
        }
    }
}
