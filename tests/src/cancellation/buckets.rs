use std::time::Duration;

use ferrisson_core::{BucketHandle, Result, codec::Text};
use ferrisson_testkit::{
    cancel::{Cut, cancel_at},
    faulty::Op,
};
use futures::{FutureExt, future::BoxFuture};
use tokio::time;

use crate::{Env, Network, is_untouched, leaves_nothing};

type Bucket = BucketHandle<String, Text>;
/// A call and what the value is after it; `None`: there is none.
type Case = (Op, fn(Bucket) -> BoxFuture<'static, Result<()>>, Option<&'static str>);

const TTL: Duration = Duration::from_secs(600);

macro_rules! call {
    ($op:ident, $method:ident($($arg:expr),*) => $after:expr) => {{
        let call: fn(Bucket) -> BoxFuture<'static, Result<()>> =
            |bucket| async move { bucket.$method($($arg),*).await.map(drop) }.boxed();
        (Op::$op, call, $after)
    }};
}

/// Every call, on a bucket that has `old`.
fn cases() -> Vec<Case> {
    vec![
        call!(Get, get() => Some("old")),
        call!(Set, set(&"new".into()) => Some("new")),
        call!(Set, set_with_ttl(&"new".into(), TTL) => Some("new")),
        call!(Set, set_keep_ttl(&"new".into()) => Some("new")),
        call!(Set, set_if_absent(&"new".into()) => Some("old")),
        call!(Set, set_if_absent_with_ttl(&"new".into(), TTL) => Some("old")),
        call!(Set, set_if_exists(&"new".into()) => Some("new")),
        call!(Set, set_if_exists_with_ttl(&"new".into(), TTL) => Some("new")),
        call!(CompareAndSet, compare_and_set(Some(&"old".into()), Some(&"new".into())) => Some("new")),
        call!(Replace, get_and_set(&"new".into()) => Some("new")),
        call!(Replace, get_and_set_with_ttl(&"new".into(), TTL) => Some("new")),
        call!(Take, take() => None),
        call!(Delete, delete() => None),
        call!(Exists, exists() => Some("old")),
        call!(Size, size() => Some("old")),
        call!(Expire, expire(TTL) => Some("old")),
        call!(Expire, clear_expiry() => Some("old")),
        call!(Ttl, ttl() => Some("old")),
        call!(Touch, touch() => Some("old")),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_of_a_bucket_is_done_or_was_never_begun() {
    for (op, call, after) in cases() {
        leaves_nothing(async |env: &Env, network: Network, at: Cut| {
            let stranger = env.stranger.bucket_with::<String, _>("b", Text);
            stranger.set(&"old".into()).await.unwrap();
            env.plan(network, op);
            let done = cancel_at(call(env.client.bucket_with("b", Text)), at).await;
            time::sleep(Duration::from_secs(4)).await;
            let expected = if is_untouched(at) { Some("old") } else { after };
            assert_eq!(stranger.get().await.unwrap().as_deref(), expected, "{op:?} {at:?}");
            done.is_none()
        })
        .await;
    }
}
