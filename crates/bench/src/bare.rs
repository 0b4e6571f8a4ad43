//! The baseline: the two commands that no lock can do without, sent by the same client library
//! with the same settings, and nothing around them.

use std::time::Duration;

use fred::{
    clients::Client,
    interfaces::{ClientLike, FredResult},
    types::{
        Builder, ClusterHash, ConnectHandle, CustomCommand, Value,
        config::{Config, Options, ReconnectPolicy},
    },
};
use sha1::{Digest, Sha1};

const COMPARE_AND_DELETE: &str =
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
/// The least that a lock in the shared format has to do: a hash, and a message at the end.
const TAKE_HASH: &str = "if redis.call('exists', KEYS[1]) == 0 then \
    redis.call('hset', KEYS[1], ARGV[1], 1) redis.call('pexpire', KEYS[1], ARGV[2]) return nil end \
    return redis.call('pttl', KEYS[1])";
const FREE_HASH: &str = "if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end \
    redis.call('del', KEYS[1]) redis.call('publish', KEYS[2], '0') return 1";

/// A bare fred client.
#[derive(Clone)]
pub(crate) struct Bare {
    client: Client,
    options: Options,
    compare_and_delete: String,
    take_hash: String,
    free_hash: String,
}

impl Bare {
    pub(crate) async fn connect(url: &str) -> FredResult<(Self, ConnectHandle)> {
        let mut builder = Builder::from_config(Config {
            version: fred::types::RespVersion::RESP3,
            ..Config::from_url(url)?
        });
        builder.set_policy(ReconnectPolicy::new_constant(0, 100));
        builder.with_connection_config(|config| {
            config.max_command_attempts = 1;
            config.tcp.nodelay = Some(true);
        });
        builder.with_performance_config(|config| {
            config.default_command_timeout = Duration::from_secs(1);
        });
        let client = builder.build()?;
        #[expect(clippy::disallowed_methods, reason = "lives as long as the benchmark")]
        let handle = client.init().await?;
        let timeout = Some(Duration::from_secs(1));
        let options = Options { timeout, fail_fast: true, ..Options::default() };
        let sha = |script: &str| Sha1::digest(script).iter().map(|b| format!("{b:02x}")).collect();
        let bare = Self {
            options,
            compare_and_delete: sha(COMPARE_AND_DELETE),
            take_hash: sha(TAKE_HASH),
            free_hash: sha(FREE_HASH),
            client,
        };
        for script in [COMPARE_AND_DELETE, TAKE_HASH, FREE_HASH] {
            let args = vec!["LOAD".to_owned(), script.to_owned()];
            bare.send("SCRIPT", "", args).await?;
        }
        Ok((bare, handle))
    }

    /// `SET NX PX`, then compare and delete: a plain lock.
    pub(crate) async fn string_pair(&self, key: &str, value: &str) -> FredResult<()> {
        let lease = ["NX", "PX", "30000"].map(str::to_owned);
        let set = [key.to_owned(), value.to_owned()].into_iter().chain(lease).collect();
        let taken = self.send("SET", key, set).await?;
        assert!(!taken.is_null(), "the key was taken");
        let freed = self.script(&self.compare_and_delete, &[key], &[value]).await?;
        assert_eq!(freed, Value::Integer(1), "the key was not ours");
        Ok(())
    }

    /// The shared format's hash, set and deleted by two scripts.
    pub(crate) async fn hash_pair(&self, key: &str, channel: &str, owner: &str) -> FredResult<()> {
        let taken = self.script(&self.take_hash, &[key], &[owner, "30000"]).await?;
        assert!(taken.is_null(), "the key was taken");
        let freed = self.script(&self.free_hash, &[key, channel], &[owner]).await?;
        assert_eq!(freed, Value::Integer(1), "the key was not ours");
        Ok(())
    }

    async fn script(&self, sha: &str, keys: &[&str], args: &[&str]) -> FredResult<Value> {
        let count = keys.len().to_string();
        let head = [sha, count.as_str()];
        let all = head.iter().chain(keys).chain(args).map(|arg| (*arg).to_owned());
        self.send("EVALSHA", keys[0], all.collect()).await
    }

    async fn send(&self, name: &'static str, key: &str, args: Vec<String>) -> FredResult<Value> {
        let hash = ClusterHash::from(key.as_bytes());
        let command = CustomCommand::new_static(name, hash, false);
        #[expect(clippy::disallowed_methods, reason = "any error ends the benchmark")]
        self.client.with_options(&self.options).custom(command, args).await
    }
}
