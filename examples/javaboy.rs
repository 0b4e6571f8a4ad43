//! A lock and a value, in two ways: by hand as one does with Jedis, and as one does with Redisson.
//!
//! ```text
//! cargo run --example javaboy
//! cargo run --example javaboy -- --url redis://:123@127.0.0.1:6379
//! ```

use std::{error::Error, time::Duration};

use ferrisson::{Client, Result, codec::Text};
use ferrisson_examples::{Args, Parser, Say, terminal};

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let client = Args::parse().client().await?;
    let say = terminal();
    jedis_way(&client, &say).await?;
    redisson_way(&client, &say).await?;
    client.close().await;
    Ok(())
}

/// With Jedis: `SET k1 v1 NX EX 5`; if it says OK, set and get a name, and delete `k1`. A plain lock
/// is the same key, with a value that is ours alone, so that we delete only what is ours.
pub(crate) async fn jedis_way(client: &Client, say: &Say) -> Result<()> {
    let seat = client.plain_lock("k1");
    let Some(guard) = seat.try_lock(Duration::ZERO, Duration::from_secs(5)).await? else {
        say("k1: somebody has the seat".to_owned());
        return Ok(());
    };
    say("k1: nobody had the seat".to_owned());

    let name = client.bucket_with::<String, _>("name", Text);
    name.set(&"javaboy".to_owned()).await?;
    say(format!("name: {}", name.get().await?.unwrap_or_default()));

    guard.unlock().await?;
    say("k1: the seat is free again".to_owned());
    name.delete().await?;
    Ok(())
}

/// With Redisson: `tryLock(500, 1000, MILLISECONDS)`; if it says true, set and get a bucket, and
/// unlock.
pub(crate) async fn redisson_way(client: &Client, say: &Say) -> Result<()> {
    let lock = client.lock("lock");
    let (wait, lease) = (Duration::from_millis(500), Duration::from_millis(1000));
    let Some(guard) = lock.try_lock(wait, lease).await? else {
        say("lock: could not get it".to_owned());
        return Ok(());
    };
    say("lock: got it".to_owned());

    let bucket = client.bucket_with::<String, _>("javaboy", Text);
    bucket.set(&"www.javaboy.org".to_owned()).await?;
    say(format!("javaboy: {}", bucket.get().await?.unwrap_or_default()));

    // Java unlocks in `finally`; here the guard does it when it is dropped. This way we hear of it
    // should the lock have been lost meanwhile.
    guard.unlock().await?;
    say("lock: unlocked".to_owned());
    bucket.delete().await?;
    Ok(())
}
