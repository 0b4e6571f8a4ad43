use super::{Mutant, Suite};

/// Thousands of virtual seconds of workers behind a bad network, without a server.
const SIMULATION: Suite = &["--test", "simulation"];
/// The in-process backend and a real server, side by side.
const DIFFERENTIAL: Suite = &["--test", "differential"];
/// The wait loop, in stopped time.
const WAITING: Suite = &["--test", "waiting"];
/// Leases, their renewal and their loss, in stopped time.
const WATCHDOG: Suite = &["--test", "watchdog"];
/// Commands that clients send.
const COMMANDS: Suite = &["--test", "commands"];
/// Requests that arrive when nobody waits for them any more.
const ZOMBIES: Suite = &["--test", "faults", "--", "zombies"];
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
        suites: &[SIMULATION, WATCHDOG],
    },
    Mutant {
        name: "renewal-counts-from-its-reply",
        file: "crates/ferrisson-core/src/engine/hold.rs",
        find: "state.valid_until = valid_until(sent, lease.min(state.ceiling));",
        replace: "let _ = sent;\n                state.valid_until = valid_until(Instant::now(), lease.min(state.ceiling));",
        suites: &[SIMULATION, WATCHDOG],
    },
    Mutant {
        name: "late-grant-is-taken",
        file: "crates/ferrisson-core/src/lock/source.rs",
        find: "if held.hold().state() != HoldState::Held {",
        replace: "if matches!(held.hold().state(), HoldState::Suspended) {",
        suites: &[SIMULATION, WATCHDOG],
    },
    Mutant {
        name: "dropped-request-is-forgotten",
        file: "crates/ferrisson-core/src/engine/completing.rs",
        find: "self.tasks.spawn_on(async { drop(future.await) }, &runtime);",
        replace: "drop((future, runtime));",
        suites: &[WAITING],
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
        suites: &[ZOMBIES, WAITING],
    },
    Mutant {
        name: "lost-hold-is-held-again",
        file: "crates/ferrisson-core/src/engine/hold.rs",
        find: "        // A hold that has been called lost is never called held again.\n        state.check_clock();",
        replace: "        state.lost = None;",
        suites: &[WATCHDOG],
    },
    Mutant {
        name: "no-try-after-the-subscription",
        file: "crates/ferrisson-core/src/engine/acquire.rs",
        find: "                ticket.set_wakeup(wakeup);\n                ticket.set_outlook(Outlook { not_before: Instant::now(), available: 0 });\n                Ok(true)",
        replace: "                ticket.set_wakeup(wakeup);\n                Ok(false)",
        suites: &[WAITING, COMMANDS],
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
    Mutant {
        name: "hold-is-lost-when-a-renewal-says-so",
        file: "crates/ferrisson-core/src/engine/hold.rs",
        find: "() = time::sleep_until(valid_until) => {}",
        replace: "() = std::future::pending() => { let _ = valid_until; }",
        suites: &[WATCHDOG],
    },
    Mutant {
        name: "renewal-comes-late",
        file: "crates/ferrisson-core/src/engine/hold.rs",
        find: "return Some(sent + lease / 3);",
        replace: "return Some(sent + lease * 2);",
        suites: &[WATCHDOG],
    },
    Mutant {
        name: "each-hold-is-renewed-alone",
        file: "crates/ferrisson-core/src/engine/keeper.rs",
        find: "due.chunks(context.config.renewal_batch)",
        replace: "due.chunks(1.min(context.config.renewal_batch))",
        suites: &[WATCHDOG, COMMANDS],
    },
    Mutant {
        name: "next-in-the-row-is-not-called",
        file: "crates/ferrisson-core/src/engine/queue.rs",
        find: "Some(next) if was_head => next.notify_one(),",
        replace: "Some(_) if was_head => {}",
        suites: &[WAITING],
    },
    Mutant {
        name: "dropped-guard-keeps-the-lock",
        file: "crates/ferrisson-core/src/lock/source.rs",
        find: "hold.release_in_background();",
        replace: "hold.retire();",
        suites: &[WAITING],
    },
    Mutant {
        name: "acquisition-cannot-be-repeated",
        file: "crates/ferrisson-protocol/src/scripts/lock_acquire.lua",
        find: "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then",
        replace: "if true then",
        suites: &[DIFFERENTIAL],
    },
    Mutant {
        name: "value-is-set-whatever-is-expected",
        file: "crates/ferrisson-protocol/src/scripts/bucket_compare_and_set.lua",
        find: "if redis.call('get', KEYS[1]) ~= (ARGV[1] == '1' and ARGV[2]) then",
        replace: "if false then",
        suites: &[DIFFERENTIAL],
    },
    Mutant {
        name: "more-permits-than-there-are",
        file: "crates/ferrisson-protocol/src/scripts/semaphore_acquire.lua",
        find: "if (tonumber(before) or 0) < tonumber(ARGV[1]) then",
        replace: "if (tonumber(before) or 0) < 0 then",
        suites: &[DIFFERENTIAL],
    },
    Mutant {
        name: "memory-releases-for-anybody",
        file: "crates/ferrisson-memory/src/state/lock.rs",
        find: "Ok(self.hold(lock, now)?.filter(|hold| hold.value.is_held_by(owner)))",
        replace: "let _ = owner;\n        self.hold(lock, now)",
        suites: &[DIFFERENTIAL],
    },
    Mutant {
        name: "memory-forgets-who-was-abandoned",
        file: "crates/ferrisson-memory/src/state/lock.rs",
        find: "if self.abandoned.contains(&(lock.name.clone(), owner), now) {",
        replace: "if self.abandoned.contains(&(lock.name.clone(), owner), now) && false {",
        suites: &[DIFFERENTIAL],
    },
];
