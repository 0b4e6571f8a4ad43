use std::time::Duration;

use super::*;
use crate::poll_until;

const SECOND: Duration = Duration::from_secs(1);

async fn start() -> (Server, Proxy, Raw) {
    let server = Server::start().await;
    let proxy = Proxy::to(&server).await;
    let client = Raw::connect(proxy.port()).await.unwrap();
    (server, proxy, client)
}

async fn get(server: &Server, key: &str) -> Value {
    server.raw().await.command(&["GET", key]).await.unwrap()
}

async fn is_silent(client: &mut Raw) -> bool {
    tokio::time::timeout(Duration::from_millis(100), client.reply()).await.is_err()
}

#[tokio::test]
async fn without_rules_everything_passes_and_is_counted() {
    let (_server, proxy, mut client) = start().await;
    for _ in 0..3 {
        client.send(&["INCR", "n"]).await.unwrap();
    }
    for expected in 1..=3 {
        assert_eq!(client.reply().await.unwrap().int(), expected);
    }
    let script = "return redis.call('INCRBY', KEYS[1], 10)";
    assert_eq!(client.command(&["EVAL", script, "1", "n"]).await.unwrap().int(), 13);
    assert_eq!(proxy.counts(), BTreeMap::from([("INCR".into(), 3), ("EVAL".into(), 1)]));
    assert_eq!(proxy.connections(), 1);
    drop(client);
    poll_until("the connection is gone", SECOND, async || proxy.connections() == 0).await;
}

#[tokio::test]
async fn a_password_is_part_of_the_url() {
    let server = Server::builder().password("123").start().await;
    let proxy = Proxy::to(&server).await;
    assert_eq!(proxy.url(), format!("redis://:123@127.0.0.1:{}", proxy.port()));
    let mut client = Raw::connect(proxy.port()).await.unwrap();
    client.auth("123").await.unwrap();
    let rule = proxy.add(Rule::on("INCR"));
    client.command(&["INCR", "n"]).await.unwrap();
    assert_eq!(rule.replay().await.int(), 2);
}

#[tokio::test]
async fn a_rule_acts_on_the_nth_match_only() {
    let (server, proxy, mut client) = start().await;
    let rule = Rule::on("set").containing("mine").nth(2).then(Action::CutBefore);
    let rule = proxy.add(rule);
    client.command(&["SET", "other", "1"]).await.unwrap();
    client.command(&["SET", "mine", "1"]).await.unwrap();
    client.command(&["GET", "mine"]).await.unwrap();
    assert!(client.command(&["SET", "mine", "2"]).await.is_err());
    rule.wait_fired(1).await;
    assert_eq!((rule.matched(), rule.fired()), (2, 1));
    assert_eq!(get(&server, "mine").await.int(), 1);
    let mut client = Raw::connect(proxy.port()).await.unwrap();
    client.command(&["SET", "mine", "3"]).await.unwrap();
    assert_eq!(get(&server, "mine").await.int(), 3);
}

#[tokio::test]
async fn a_lost_reply_means_executed_and_cut() {
    let (server, proxy, mut client) = start().await;
    let rule = proxy.add(Rule::on("SET").then(Action::CutAfter));
    client.send(&["INCR", "n"]).await.unwrap();
    client.send(&["SET", "a", "1"]).await.unwrap();
    rule.wait_fired(1).await;
    assert_eq!(get(&server, "a").await.int(), 1);
    let mut replies = Vec::new();
    while let Ok(reply) = client.reply().await {
        replies.push(reply);
    }
    assert!(!replies.contains(&Value::Status("OK".into())), "{replies:?}");
}

#[tokio::test]
async fn a_reply_cut_in_the_middle_is_no_reply() {
    let (server, proxy, mut client) = start().await;
    let _ = proxy.add(Rule::on("SET").then(Action::CutWithin));
    let error = client.command(&["SET", "a", "1"]).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(get(&server, "a").await.int(), 1);
}

#[tokio::test]
async fn a_black_hole_swallows_one_direction_or_both() {
    let (server, proxy, mut client) = start().await;
    let rule = proxy.add(Rule::on("SET").then(Action::BlackHole(Direction::Replies)));
    client.send(&["SET", "a", "1"]).await.unwrap();
    rule.wait_fired(1).await;
    client.send(&["SET", "a", "2"]).await.unwrap();
    assert!(is_silent(&mut client).await);
    assert_eq!(get(&server, "a").await.int(), 2);
    rule.remove();

    let rule = proxy.add(Rule::on("SET").then(Action::BlackHole(Direction::Requests)));
    let mut client = Raw::connect(proxy.port()).await.unwrap();
    client.send(&["SET", "a", "3"]).await.unwrap();
    rule.wait_fired(1).await;
    assert!(is_silent(&mut client).await);
    assert_eq!(get(&server, "a").await.int(), 2);
    rule.remove();

    let mut client = Raw::connect(proxy.port()).await.unwrap();
    client.command(&["PING"]).await.unwrap();
    proxy.black_hole_all(Direction::Both);
    client.send(&["SET", "a", "4"]).await.unwrap();
    assert!(is_silent(&mut client).await);
    assert_eq!(get(&server, "a").await.int(), 2);
}

#[tokio::test]
async fn a_held_command_waits_while_other_connections_pass_it() {
    let (server, proxy, mut client) = start().await;
    let rule = proxy.add(Rule::on("SET").nth(1).then(Action::Hold));
    client.send(&["SET", "a", "1"]).await.unwrap();
    rule.wait_fired(1).await;
    let mut other = Raw::connect(proxy.port()).await.unwrap();
    other.command(&["SET", "a", "2"]).await.unwrap();
    // The client gives up, but what it has sent is on its way.
    drop(client);
    assert_eq!(get(&server, "a").await.int(), 2);
    rule.release();
    poll_until("the late command arrives", SECOND, async || get(&server, "a").await.int() == 1)
        .await;
}

#[tokio::test]
async fn a_delay_and_a_latency_make_replies_late() {
    let (_server, proxy, mut client) = start().await;
    let took = async |client: &mut Raw| {
        let start = Instant::now();
        client.command(&["PING"]).await.unwrap();
        start.elapsed()
    };
    let rule = proxy.add(Rule::on("PING").then(Action::Delay(Duration::from_millis(50))));
    assert!(took(&mut client).await >= Duration::from_millis(50));
    rule.remove();
    proxy.set_latency(Duration::from_millis(30), Duration::from_millis(40));
    assert!(took(&mut client).await >= Duration::from_millis(70));
}

#[tokio::test]
async fn an_answer_is_given_in_order_and_the_server_gets_nothing() {
    let (server, proxy, mut client) = start().await;
    let _ = proxy.add(Rule::on("SET").then(Action::Answer("-OOM no memory".into())));
    client.send(&["INCR", "n"]).await.unwrap();
    client.send(&["SET", "a", "1"]).await.unwrap();
    client.send(&["INCR", "n"]).await.unwrap();
    assert_eq!(client.reply().await.unwrap().int(), 1);
    assert_eq!(client.reply().await.unwrap(), Value::Error("OOM no memory".into()));
    assert_eq!(client.reply().await.unwrap().int(), 2);
    assert!(get(&server, "a").await.is_nil());
}

#[tokio::test]
async fn a_command_can_arrive_twice_or_late() {
    let (server, proxy, mut client) = start().await;
    let soon = Duration::from_millis(20);
    let rule = proxy.add(Rule::on("INCR").replay_after(soon));
    assert_eq!(client.command(&["INCR", "n"]).await.unwrap().int(), 1);
    poll_until("the duplicate arrives", SECOND, async || get(&server, "n").await.int() == 2).await;
    rule.remove();
    let _ = proxy.add(Rule::on("SET").then(Action::CutBefore).replay_after(soon));
    assert!(client.command(&["SET", "a", "1"]).await.is_err());
    poll_until("the command arrives", SECOND, async || !get(&server, "a").await.is_nil()).await;
}

#[tokio::test]
async fn a_confirmation_of_a_subscription_can_be_lost_and_messages_are_no_replies() {
    let (server, proxy, mut client) = start().await;
    let mut publisher = server.raw().await;
    client.subscribe("a").await.unwrap();
    publisher.command(&["PUBLISH", "a", "1"]).await.unwrap();
    assert_eq!(client.next_message().await.unwrap().1, "1");
    let rule = proxy.add(Rule::on("SUBSCRIBE").then(Action::BlackHole(Direction::Replies)));
    client.send(&["PING"]).await.unwrap();
    publisher.command(&["PUBLISH", "a", "2"]).await.unwrap();
    client.send(&["SUBSCRIBE", "b"]).await.unwrap();
    rule.wait_fired(1).await;
    assert_eq!(publisher.subscribers("b").await.unwrap(), 1);
    let mut seen = Vec::new();
    for _ in 0..2 {
        seen.push(client.reply().await.unwrap().list()[0].text());
    }
    seen.sort();
    assert_eq!(seen, ["message", "pong"]);
    assert!(is_silent(&mut client).await);
}

#[tokio::test]
async fn subscribers_alone_can_be_cut() {
    let (server, proxy, mut client) = start().await;
    let mut subscriber = Raw::connect(proxy.port()).await.unwrap();
    subscriber.subscribe("a").await.unwrap();
    client.command(&["PING"]).await.unwrap();
    proxy.cut_subscribers();
    assert!(subscriber.next_message().await.is_err());
    assert_eq!(client.command(&["PING"]).await.unwrap().text(), "PONG");
    proxy.cut_all();
    assert!(client.command(&["PING"]).await.is_err());
    drop(server);
}

#[tokio::test]
async fn newcomers_are_refused_closed_or_ignored() {
    let (_server, proxy, mut old) = start().await;
    old.command(&["PING"]).await.unwrap();
    proxy.set_accepting(Accepting::Refuse).await;
    assert!(Raw::connect(proxy.port()).await.is_err());
    assert_eq!(old.command(&["PING"]).await.unwrap().text(), "PONG");
    proxy.set_accepting(Accepting::Close).await;
    let mut closed = Raw::connect(proxy.port()).await.unwrap();
    assert!(closed.command(&["PING"]).await.is_err());
    proxy.set_accepting(Accepting::Silent).await;
    let mut ignored = Raw::connect(proxy.port()).await.unwrap();
    ignored.send(&["PING"]).await.unwrap();
    assert!(is_silent(&mut ignored).await);
    proxy.set_accepting(Accepting::Yes).await;
    let mut welcome = Raw::connect(proxy.port()).await.unwrap();
    assert_eq!(welcome.command(&["PING"]).await.unwrap().text(), "PONG");
}

#[tokio::test]
async fn stalled_traffic_flows_again_and_nothing_is_lost() {
    let (_server, proxy, mut client) = start().await;
    client.command(&["PING"]).await.unwrap();
    proxy.stall(Direction::Replies);
    client.send(&["PING"]).await.unwrap();
    assert!(is_silent(&mut client).await);
    proxy.flow();
    assert_eq!(client.reply().await.unwrap().text(), "PONG");
}

#[tokio::test]
async fn a_dropped_proxy_leaves_no_connection() {
    let (server, proxy, mut client) = start().await;
    client.command(&["PING"]).await.unwrap();
    drop(proxy);
    assert!(client.command(&["PING"]).await.is_err());
    let mut raw = server.raw().await;
    poll_until("the server has no other client", SECOND, async || {
        raw.client_count().await.unwrap() == 0
    })
    .await;
}
