//! What the error texts of a server mean.

use ferrisson_core::{Refusal, backend::Failure};

/// Errors that are told by their first word.
const WORDS: [(&str, Failure); 16] = [
    ("WRONGTYPE", Failure::WrongType),
    ("OOM", Failure::Refused(Refusal::OutOfMemory)),
    ("READONLY", Failure::Refused(Refusal::ReadOnly)),
    ("NOPERM", Failure::Refused(Refusal::NotPermitted)),
    ("NOAUTH", Failure::Refused(Refusal::Authentication)),
    ("WRONGPASS", Failure::Refused(Refusal::Authentication)),
    ("MISCONF", Failure::Refused(Refusal::Misconfigured)),
    ("LOADING", Failure::Refused(Refusal::Loading)),
    ("BUSY", Failure::Refused(Refusal::Busy)),
    ("CLUSTERDOWN", Failure::Refused(Refusal::ClusterDown)),
    ("TRYAGAIN", Failure::Refused(Refusal::ClusterDown)),
    ("MOVED", Failure::Refused(Refusal::ClusterDown)),
    ("ASK", Failure::Refused(Refusal::ClusterDown)),
    ("CROSSSLOT", Failure::Refused(Refusal::CrossSlot)),
    ("MASTERDOWN", Failure::Refused(Refusal::PrimaryDown)),
    ("NOREPLICAS", Failure::Refused(Refusal::TooFewReplicas)),
];

/// Errors without a word of their own, told by a part of the text.
const PHRASES: [(&str, Failure); 6] = [
    ("would overflow", Failure::Refused(Refusal::Overflow)),
    ("ACL failure in script", Failure::Refused(Refusal::NotPermitted)),
    ("The user executing the script can't", Failure::Refused(Refusal::NotPermitted)),
    ("access a non local key", Failure::Refused(Refusal::CrossSlot)),
    ("access keys that do not hash to the same slot", Failure::Refused(Refusal::CrossSlot)),
    ("invalid password", Failure::Refused(Refusal::Authentication)),
];

/// The kind of an error reply. The server has refused what it was asked for.
pub(crate) fn classify(text: &str) -> Failure {
    let text = unwrapped(text);
    let word = text.split(' ').next().unwrap_or_default();
    let by_word = WORDS.iter().find(|(known, _)| *known == word);
    let by_phrase = || PHRASES.iter().find(|(part, _)| text.contains(part));
    match by_word.or_else(by_phrase) {
        Some((_, failure)) => *failure,
        None => Failure::Refused(Refusal::Other),
    }
}

/// The error of the command inside a script, without what servers before 7.0 put in front of it:
/// `ERR Error running script (call to f_<sha1>): @user_script:9: @user_script: 9: -OOM …`.
fn unwrapped(text: &str) -> &str {
    let Some((_, rest)) = text.rsplit_once("@user_script:") else { return text };
    match rest.trim_start().split_once(": ") {
        Some((line, error)) if line.bytes().all(|byte| byte.is_ascii_digit()) => {
            error.trim_start_matches('-')
        }
        // Later servers name the line behind the error.
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str =
        "ERR Error running script (call to f_7e261e95a4e34decacc61e8157a2bf6b9e5bed72)";

    fn of(text: &str) -> Refusal {
        match classify(text) {
            Failure::Refused(refusal) => refusal,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_first_word_tells() {
        for (text, refusal) in [
            ("OOM command not allowed when used memory > 'maxmemory'.", Refusal::OutOfMemory),
            ("READONLY You can't write against a read only replica.", Refusal::ReadOnly),
            ("NOPERM User bob has no permissions to run the 'set' command", Refusal::NotPermitted),
            ("MISCONF Errors writing to the AOF file: No space left", Refusal::Misconfigured),
            ("LOADING Redis is loading the dataset in memory", Refusal::Loading),
            ("NOAUTH Authentication required.", Refusal::Authentication),
            ("WRONGPASS invalid username-password pair", Refusal::Authentication),
            ("BUSY Redis is busy running a script.", Refusal::Busy),
            ("CLUSTERDOWN Hash slot not served", Refusal::ClusterDown),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Refusal::ClusterDown),
            ("MOVED 3999 127.0.0.1:6381", Refusal::ClusterDown),
            ("MASTERDOWN Link with MASTER is down", Refusal::PrimaryDown),
            ("NOREPLICAS Not enough good replicas to write.", Refusal::TooFewReplicas),
            ("CROSSSLOT Keys in request don't hash to the same slot", Refusal::CrossSlot),
            ("ERR unknown command 'GETDEL'", Refusal::Other),
            ("BUSYKEY Target key name already exists.", Refusal::Other),
            ("ERR value is not an integer or out of range", Refusal::Other),
            ("ERR increment or decrement would overflow", Refusal::Overflow),
            ("", Refusal::Other),
        ] {
            assert_eq!(of(text), refusal, "{text}");
        }
        let text = "WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(classify(text), Failure::WrongType);
    }

    #[test]
    fn errors_inside_scripts_are_those_of_the_command() {
        let [behind, bare] = [" script: 7e261e95a4e34dec, on @user_script:1.", ""];
        for (text, failure) in [
            ("WRONGTYPE Operation against a key", Failure::WrongType),
            ("OOM command not allowed when", Failure::Refused(Refusal::OutOfMemory)),
            ("READONLY You can't write", Failure::Refused(Refusal::ReadOnly)),
            ("NOREPLICAS Not enough", Failure::Refused(Refusal::TooFewReplicas)),
            ("MISCONF Redis is configured", Failure::Refused(Refusal::Misconfigured)),
            ("ERR increment or decrement would overflow", Failure::Refused(Refusal::Overflow)),
            ("ERR value is not an integer", Failure::Refused(Refusal::Other)),
        ] {
            for end in [behind, " script: on @user_script:1.", bare] {
                assert_eq!(classify(&format!("{text}{end}")), failure, "{text}{end}");
            }
            for start in ["@user_script:12: ", "@user_script:1: @user_script: 1: -"] {
                assert_eq!(classify(&format!("{OLD}: {start}{text}")), failure, "{start}{text}");
            }
        }
    }

    #[test]
    fn missing_permissions_inside_scripts_are_recognised() {
        for text in [
            "ERR ACL failure in script: No permissions to access a key script: on @user_script:1.",
            "ERR ACL failure in script: User bob has no permissions to run the 'hset' command",
            "ERR The user executing the script can't run this command or subcommand script: 0fa7, \
             on @user_script:1.",
            "@user_script: 1: The user executing the script can't access at least one of the keys \
             mentioned in the command arguments",
        ] {
            assert_eq!(of(text), Refusal::NotPermitted, "{text}");
        }
        let old = "The user executing the script can't run this command or subcommand";
        let text = format!("{OLD}: @user_script:1: @user_script: 1: {old}");
        assert_eq!(of(&text), Refusal::NotPermitted);
    }
}
