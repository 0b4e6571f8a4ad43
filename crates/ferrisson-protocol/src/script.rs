//! The Lua scripts and how they are run.

use std::sync::LazyLock;

use bytes::Bytes;
use sha1::{Digest, Sha1};

use crate::connection::{CallError, Command, Connection, Reply};

/// A Lua script. Its header says what it does and what its keys, arguments and replies are.
#[derive(Debug)]
pub(crate) struct Script {
    name: &'static str,
    source: &'static str,
    keys: Keys,
    sha1: LazyLock<Bytes>,
}

/// How many keys a script takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    Exactly(usize),
    OneOrMore,
}

/// Declares the scripts, one for each file of the folder, and the table of all.
macro_rules! scripts {
    ($($static:ident = $name:literal, $keys:expr;)*) => {
        $(pub(crate) static $static: Script = Script {
            name: $name,
            source: include_str!(concat!("scripts/", $name, ".lua")),
            keys: $keys,
            sha1: LazyLock::new(|| sha1(include_str!(concat!("scripts/", $name, ".lua")))),
        };)*

        #[cfg(test)]
        static ALL: &[&Script] = &[$(&$static),*];
    };
}

scripts! {
    LOCK_ABANDON = "lock_abandon", Keys::Exactly(2);
    LOCK_ACQUIRE = "lock_acquire", Keys::Exactly(2);
    LOCK_FORCE_RELEASE = "lock_force_release", Keys::Exactly(1);
    LOCK_INSPECT = "lock_inspect", Keys::Exactly(1);
    LOCK_RELEASE = "lock_release", Keys::Exactly(1);
    LOCK_RENEW = "lock_renew", Keys::OneOrMore;
    LOCK_SET_HOLDS = "lock_set_holds", Keys::Exactly(1);
    PLAIN_ABANDON = "plain_abandon", Keys::Exactly(2);
    PLAIN_ACQUIRE = "plain_acquire", Keys::Exactly(2);
    PLAIN_FORCE_RELEASE = "plain_force_release", Keys::Exactly(1);
    PLAIN_INSPECT = "plain_inspect", Keys::Exactly(1);
    PLAIN_RELEASE = "plain_release", Keys::Exactly(1);
    PLAIN_RENEW = "plain_renew", Keys::OneOrMore;
    SEMAPHORE_ABANDON = "semaphore_abandon", Keys::Exactly(2);
    SEMAPHORE_ACQUIRE = "semaphore_acquire", Keys::Exactly(2);
    SEMAPHORE_ADD = "semaphore_add", Keys::Exactly(2);
    SEMAPHORE_DRAIN = "semaphore_drain", Keys::Exactly(1);
    SEMAPHORE_INIT = "semaphore_init", Keys::Exactly(1);
    SEMAPHORE_RELEASE = "semaphore_release", Keys::Exactly(2);
    BUCKET_COMPARE_AND_SET = "bucket_compare_and_set", Keys::Exactly(1);
}

impl Script {
    /// Runs the script where its first key lives.
    ///
    /// A server that does not know it yet has executed nothing, and is sent the text, which it
    /// then keeps.
    pub(crate) async fn run(
        &self,
        connection: &impl Connection,
        keys: &[Bytes],
        args: &[Bytes],
    ) -> Result<Reply, CallError> {
        debug_assert!(self.keys.fit(keys.len()), "{} with {} keys", self.name, keys.len());
        match connection.call(command("EVALSHA", (*self.sha1).clone(), keys, args)).await {
            Err(CallError::Server { text }) if text.starts_with("NOSCRIPT") => {
                let source = Bytes::from_static(self.source.as_bytes());
                connection.call(command("EVAL", source, keys, args)).await
            }
            result => result,
        }
    }
}

impl Keys {
    const fn fit(self, number: usize) -> bool {
        match self {
            Self::Exactly(keys) => number == keys,
            Self::OneOrMore => number > 0,
        }
    }
}

fn command(name: &'static str, script: Bytes, keys: &[Bytes], args: &[Bytes]) -> Command {
    let mut all = Vec::with_capacity(2 + keys.len() + args.len());
    all.push(script);
    all.push(match keys.len() {
        1 => Bytes::from_static(b"1"),
        2 => Bytes::from_static(b"2"),
        number => number.to_string().into(),
    });
    all.extend_from_slice(keys);
    all.extend_from_slice(args);
    Command { name, key: keys[0].clone(), args: all }
}

/// The name that a server gives to a script.
fn sha1(source: &str) -> Bytes {
    let digest = Sha1::digest(source.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// The numbers `n` in `word[n]`.
    fn indices(text: &str, word: &str) -> BTreeSet<usize> {
        let open = format!("{word}[");
        let parts = text.split(open.as_str()).skip(1);
        parts.filter_map(|part| part.split(']').next()?.parse().ok()).collect()
    }

    fn header(script: &Script) -> String {
        script.source.lines().take_while(|line| line.starts_with("--")).collect()
    }

    fn body(script: &Script) -> String {
        let lines = script.source.lines();
        lines
            .filter(|line| !line.trim_start().starts_with("--"))
            .map(|l| format!("{l}\n"))
            .collect()
    }

    #[test]
    fn every_file_is_in_the_table_and_has_its_own_static() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scripts");
        let files: BTreeSet<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let table: BTreeSet<_> = ALL.iter().map(|script| format!("{}.lua", script.name)).collect();
        assert_eq!(files, table);
        assert_eq!(ALL.len(), table.len());
    }

    #[test]
    fn the_keys_that_a_script_uses_are_those_it_declares() {
        for script in ALL {
            let used = indices(&body(script), "KEYS");
            let expected = match script.keys {
                Keys::Exactly(keys) => (1..=keys).collect(),
                Keys::OneOrMore => BTreeSet::new(),
            };
            assert_eq!(used, expected, "{}", script.name);
            let iterates = body(script).contains("ipairs(KEYS)");
            assert_eq!(iterates, script.keys == Keys::OneOrMore, "{}", script.name);
        }
    }

    #[test]
    fn headers_name_purpose_keys_arguments_and_replies() {
        for script in ALL {
            let header = header(script);
            assert!(header.starts_with("-- ") && header.contains(".--"), "{}", script.name);
            assert!(header.contains("Returns  "), "{}", script.name);
            match script.keys {
                Keys::Exactly(_) => {
                    assert_eq!(indices(&header, "KEYS"), indices(&body(script), "KEYS"));
                    assert_eq!(indices(&header, "ARGV"), indices(&body(script), "ARGV"));
                }
                Keys::OneOrMore => assert!(header.contains("KEYS ") && header.contains("ARGV ")),
            }
        }
    }

    #[test]
    fn scripts_touch_declared_keys_only() {
        for script in ALL {
            for call in body(script).split("call('").skip(1) {
                let (command, rest) = call.split_once('\'').unwrap();
                let first = rest.trim_start_matches([',', ' ']).split([',', ')']).next().unwrap();
                let is_key = first.starts_with("KEYS[") || first == "key";
                let is_channel = command == "publish" && first.starts_with("ARGV[");
                assert!(is_key || is_channel, "{}: {command} on {first}", script.name);
            }
            assert!(!body(script).contains(".."), "{} puts texts together", script.name);
        }
    }

    #[test]
    fn scripts_fit_the_eye() {
        for script in ALL {
            let lines = body(script).lines().filter(|line| !line.is_empty()).count();
            assert!(lines <= 25, "{} has {lines} lines", script.name);
        }
    }

    #[test]
    fn the_digest_is_the_one_of_script_load() {
        assert_eq!(sha1("return 1"), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        for script in ALL {
            assert_eq!(*script.sha1, sha1(script.source), "{}", script.name);
        }
    }
}
