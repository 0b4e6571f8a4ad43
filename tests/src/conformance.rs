//! The conformance suite on every backend and every kind of server.

use std::time::Duration;

use ferrisson_fred::FredConnection;
use ferrisson_memory::MemoryBackend;
use ferrisson_protocol::RedisBackend;
use ferrisson_testkit::{Cluster, Sentinel, conformance::Store, for_each_conformance_case, shared};
use tokio::sync::OnceCell;

macro_rules! tests {
    ($backend:ident, $test:meta; $($area:ident { $($case:ident)* })*) => {
        mod $backend {
            $(mod $area {
                $(#[$test]
                async fn $case() {
                    let store = crate::$backend().await;
                    ferrisson_testkit::conformance::$area::$case(&store).await;
                    store.close().await;
                })*
            })*
        }
    };
}

for_each_conformance_case!(tests!(memory, tokio::test(start_paused = true);));
for_each_conformance_case!(tests!(single, tokio::test(flavor = "multi_thread");));
for_each_conformance_case!(tests!(cluster, tokio::test(flavor = "multi_thread");));
for_each_conformance_case!(tests!(sentinel, tokio::test(flavor = "multi_thread");));

async fn memory() -> Store {
    let backend = MemoryBackend::new();
    Store::open(async || backend.clone()).await
}

async fn single() -> Store {
    connected_to(&shared().url()).await
}

async fn cluster() -> Store {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    connected_to(&CLUSTER.get_or_init(Cluster::start).await.url()).await
}

async fn sentinel() -> Store {
    static SENTINEL: OnceCell<Sentinel> = OnceCell::const_new();
    connected_to(&SENTINEL.get_or_init(Sentinel::start).await.url()).await
}

/// The time limits are long: the machine is busy with all these tests.
async fn connected_to(url: &str) -> Store {
    Store::open(async || {
        let builder = FredConnection::builder(url)
            .command_timeout(Duration::from_secs(10))
            .connect_timeout(Duration::from_secs(10));
        RedisBackend::new(builder.connect().await.expect("the server answers"))
    })
    .await
}
