use super::{Mutant, Suite};

/// Thousands of virtual seconds of workers behind a bad network, without a server.
const SIMULATION: Suite = &["--test", "simulation"];
/// The in-process backend and a real server, side by side.
const DIFFERENTIAL: Suite = &["--test", "differential"];
/// Commands that clients send.
const COMMANDS: Suite = &["--test", "commands"];
/// Lost replies, and connections that are given up.
const LOST_REPLIES: Suite = &["--test", "faults", "--", "whose_reply_is_lost"];
/// Confirmed subscriptions.
const SUBSCRIPTIONS: Suite = &["--test", "subscriptions"];

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "lease-counts-from-the-reply",
        file: "crates/ferrisson-core/src/lock/source.rs",
        find: "let held = HeldLock(Some(self.hold(token, sent)));",
        replace: "let _ = sent;\n                let held = HeldLock(Some(self.hold(token, Instant::now())));",
        suites: &[SIMULATION],
    },
    Mutant {
        name: "renewal-counts-from-its-reply",
        file: "crates/ferrisson-core/src/engine/hold.rs",
        find: "state.valid_until = valid_until(sent, lease.min(state.ceiling));",
        replace: "let _ = sent;\n                state.valid_until = valid_until(Instant::now(), lease.min(state.ceiling));",
        suites: &[SIMULATION],
    },
    Mutant {
        name: "late-grant-is-taken",
        file: "crates/ferrisson-core/src/lock/source.rs",
        find: "if held.hold().state() != HoldState::Held {",
        replace: "if matches!(held.hold().state(), HoldState::Suspended) {",
        suites: &[SIMULATION],
    },
    Mutant {
        name: "dropped-request-is-forgotten",
        file: "crates/ferrisson-core/src/engine/completing.rs",
        find: "self.tasks.spawn_on(async { drop(future.await) }, &runtime);",
        replace: "drop((future, runtime));",
        suites: &[SIMULATION],
    },
    Mutant {
        name: "unknown-outcome-is-not-cleaned-up",
        file: "crates/ferrisson-core/src/engine/cleanup.rs",
        find: "        if !self.ambiguous {\n            return;\n        }\n        let Ok(runtime)",
        replace: "        if !self.ambiguous || true {\n            return;\n        }\n        let Ok(runtime)",
        suites: &[SIMULATION],
    },
    Mutant {
        name: "unknown-outcome-leaves-no-tombstone",
        file: "crates/ferrisson-core/src/engine/cleanup.rs",
        find: "Object::Lock(key) if self.tainted => backend.abandon(key, owner).await,",
        replace: "Object::Lock(key) if self.tainted => backend.release(key, owner).await,",
        suites: &[SIMULATION],
    },
    Mutant {
        name: "lost-hold-is-held-again",
        file: "crates/ferrisson-core/src/engine/hold.rs",
        find: "        // A hold that has been called lost is never called held again.\n        state.check_clock();",
        replace: "        state.lost = None;",
        suites: &[SIMULATION],
    },
    Mutant {
        name: "no-try-after-the-subscription",
        file: "crates/ferrisson-core/src/engine/acquire.rs",
        find: "                ticket.set_wakeup(wakeup);\n                ticket.set_outlook(Outlook { not_before: Instant::now(), available: 0 });\n                Ok(true)",
        replace: "                ticket.set_wakeup(wakeup);\n                Ok(false)",
        suites: &[COMMANDS],
    },
    Mutant {
        name: "abandoned-owner-can-win-later",
        file: "crates/ferrisson-protocol/src/scripts/lock_abandon.lua",
        find: "redis.call('set', KEYS[2], '1', 'px', ARGV[3])\n",
        replace: "",
        suites: &[DIFFERENTIAL],
    },
    Mutant {
        name: "release-without-a-look-at-the-owner",
        file: "crates/ferrisson-protocol/src/scripts/lock_release.lua",
        find: "if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then",
        replace: "if redis.call('del', KEYS[1]) == 0 then",
        suites: &[DIFFERENTIAL],
    },
    Mutant {
        name: "plain-release-without-a-look-at-the-owner",
        file: "crates/ferrisson-protocol/src/scripts/plain_release.lua",
        find: "if redis.call('get', KEYS[1]) ~= ARGV[1] then",
        replace: "if not redis.call('get', KEYS[1]) then",
        suites: &[DIFFERENTIAL],
    },
    Mutant {
        name: "renewal-without-a-look-at-the-owner",
        file: "crates/ferrisson-protocol/src/scripts/lock_renew.lua",
        find: "redis.pcall('hexists', key, ARGV[2 * i - 1])",
        replace: "redis.pcall('exists', key)",
        suites: &[DIFFERENTIAL],
    },
    Mutant {
        name: "release-tells-nobody",
        file: "crates/ferrisson-protocol/src/scripts/lock_release.lua",
        find: "redis.pcall('publish', ARGV[2], '0')",
        replace: "",
        suites: &[COMMANDS],
    },
    Mutant {
        name: "permits-are-given-back-twice",
        file: "crates/ferrisson-protocol/src/scripts/semaphore_release.lua",
        find: "    redis.call('del', KEYS[2])\n",
        replace: "",
        suites: &[DIFFERENTIAL],
    },
    Mutant {
        name: "client-sends-commands-again",
        file: "crates/ferrisson-fred/src/config.rs",
        find: "Options { timeout: Some(timeout), fail_fast, ..Options::default() }",
        replace: "let (fail_fast, attempts) = (fail_fast && false, Some(3));\n        Options { timeout: Some(timeout), fail_fast, max_attempts: attempts, ..Options::default() }",
        suites: &[LOST_REPLIES],
    },
    Mutant {
        name: "subscription-is-not-confirmed",
        file: "crates/ferrisson-fred/src/subscriber/session.rs",
        find: "        match self.fence(limit).await {\n            // The fence",
        replace: "        match Fence::Passed {\n            // The fence",
        suites: &[SUBSCRIPTIONS],
    },
    Mutant {
        name: "a-gap-wakes-nobody",
        file: "crates/ferrisson-fred/src/subscriber/task.rs",
        find: "            self.channels.hub().wake_all();",
        replace: "",
        suites: &[SUBSCRIPTIONS],
    },
];
