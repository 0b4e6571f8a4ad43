//! A small Redis client for looking at, and damaging, what ferrisson has written.

use std::{collections::BTreeMap, io};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// One connection that speaks RESP2, with one command in flight.
///
/// It knows nothing of ferrisson, so that a test sees what another client would see.
#[derive(Debug)]
pub struct Raw {
    stream: BufReader<TcpStream>,
}

impl Raw {
    /// Connects to a server on the loopback address.
    ///
    /// # Errors
    /// The connection is refused.
    pub async fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends one command and waits for its reply. An error reply is [`Value::Error`].
    ///
    /// # Errors
    /// The connection broke, or the server does not speak RESP2.
    pub async fn command<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<Value> {
        self.send(args).await?;
        self.reply().await
    }

    /// Sends one command without waiting for its reply, which [`Raw::reply`] reads later.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn send<A: AsRef<[u8]>>(&mut self, args: &[A]) -> io::Result<()> {
        self.stream.get_mut().write_all(&encode(args)).await
    }

    /// Reads the next reply.
    ///
    /// # Errors
    /// The connection broke, or the server does not speak RESP2.
    pub async fn reply(&mut self) -> io::Result<Value> {
        read_value(&mut self.stream).await
    }

    /// Authenticates as the default user.
    ///
    /// # Errors
    /// The connection broke, or the password is wrong.
    pub async fn auth(&mut self, password: &str) -> io::Result<()> {
        match self.command(&["AUTH", password]).await? {
            Value::Error(text) => Err(io::Error::new(io::ErrorKind::PermissionDenied, text)),
            _ => Ok(()),
        }
    }

    /// Subscribes to a channel and waits for the confirmation. From then on the connection is only
    /// good for [`Raw::next_message`] and further subscriptions.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn subscribe(&mut self, channel: &str) -> io::Result<()> {
        match self.command(&["SUBSCRIBE", channel]).await? {
            Value::Array(_) => Ok(()),
            other => Err(invalid(&format!("no confirmation but {other:?}"))),
        }
    }

    /// Waits for the next message: its channel and its payload.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next_message(&mut self) -> io::Result<(String, Bytes)> {
        loop {
            if let Value::Array(items) = self.reply().await?
                && let [kind, channel, Value::Bulk(payload)] = items.as_slice()
                && kind.text() == "message"
            {
                return Ok((channel.text(), payload.clone()));
            }
        }
    }

    /// The names of all keys, sorted.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn keys(&mut self) -> io::Result<Vec<String>> {
        self.keys_like("*").await
    }

    /// The names of the keys that match a glob pattern, sorted.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn keys_like(&mut self, pattern: &str) -> io::Result<Vec<String>> {
        let mut keys = self.command(&["KEYS", pattern]).await?.texts();
        keys.sort();
        Ok(keys)
    }

    /// The fields of a hash.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn hash(&mut self, key: &str) -> io::Result<BTreeMap<String, String>> {
        let flat = self.command(&["HGETALL", key]).await?.texts();
        Ok(flat.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect())
    }

    /// The channels that somebody is subscribed to, sorted.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn pubsub_channels(&mut self) -> io::Result<Vec<String>> {
        let mut channels = self.command(&["PUBSUB", "CHANNELS"]).await?.texts();
        channels.sort();
        Ok(channels)
    }

    /// How many clients are subscribed to a channel.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn subscribers(&mut self, channel: &str) -> io::Result<u64> {
        let reply = self.command(&["PUBSUB", "NUMSUB", channel]).await?.list();
        Ok(reply.get(1).map_or(0, Value::int).unsigned_abs())
    }

    /// How many clients are connected, without this one.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn client_count(&mut self) -> io::Result<usize> {
        let list = self.command(&["CLIENT", "LIST", "TYPE", "normal"]).await?.text();
        let subscribers = self.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).await?.text();
        Ok(list.lines().count() + subscribers.lines().count() - 1)
    }

    /// Calls per command since the server started or its statistics were reset.
    ///
    /// Calls made inside scripts are counted too, each under its own name, and so they are in
    /// `total_commands_processed`. The entries `eval`, `evalsha`, `subscribe` and the like, which
    /// scripts cannot call, are exact; for all that clients send, see
    /// [`Proxy::counts`](crate::Proxy::counts).
    ///
    /// # Errors
    /// The connection broke.
    pub async fn commandstats(&mut self) -> io::Result<BTreeMap<String, u64>> {
        let info = self.command(&["INFO", "commandstats"]).await?.text();
        Ok(info.lines().filter_map(parse_commandstat).collect())
    }

    /// One figure of `INFO`.
    ///
    /// # Errors
    /// The connection broke, or there is no such figure.
    pub async fn info(&mut self, field: &str) -> io::Result<String> {
        let info = self.command(&["INFO", "everything"]).await?.text();
        info.lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .map(str::to_owned)
            .ok_or_else(|| invalid(&format!("INFO has no {field}")))
    }

    /// Sets all statistics to zero.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn reset_stats(&mut self) -> io::Result<()> {
        self.command(&["CONFIG", "RESETSTAT"]).await.map(drop)
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// Bytes.
    Bulk(Bytes),
    /// A word such as `OK`.
    Status(String),
    /// An error; the text starts with its kind.
    Error(String),
    /// A list.
    Array(Vec<Self>),
}

impl Value {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_nil(&self) -> bool {
        *self == Self::Nil
    }

    /// The number, also of a text that is one.
    ///
    /// # Panics
    /// It is something else.
    #[must_use]
    #[track_caller]
    pub fn int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => match other.text().parse() {
                Ok(number) => number,
                Err(_) => panic!("expected a number, got {other:?}"),
            },
        }
    }

    /// The text.
    ///
    /// # Panics
    /// It is something else.
    #[must_use]
    #[track_caller]
    pub fn text(&self) -> String {
        match self {
            Self::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            Self::Status(text) => text.clone(),
            other => panic!("expected text, got {other:?}"),
        }
    }

    /// The elements.
    ///
    /// # Panics
    /// It is something else.
    #[must_use]
    #[track_caller]
    pub fn list(&self) -> Vec<Self> {
        match self {
            Self::Array(items) => items.clone(),
            other => panic!("expected a list, got {other:?}"),
        }
    }

    /// The elements as texts.
    ///
    /// # Panics
    /// It is something else.
    #[must_use]
    #[track_caller]
    pub fn texts(&self) -> Vec<String> {
        self.list().iter().map(Self::text).collect()
    }
}

pub(crate) fn encode<A: AsRef<[u8]>>(args: &[A]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

fn read_value(stream: &mut BufReader<TcpStream>) -> BoxFuture<'_, io::Result<Value>> {
    Box::pin(async move {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| invalid("an empty line"))?;
        let number = || rest.parse::<i64>().map_err(|_| invalid(line));
        Ok(match kind {
            "+" => Value::Status(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Int(number()?),
            "$" | "*" if number()? < 0 => Value::Nil,
            "$" => Value::Bulk(read_bulk(stream, number()?.unsigned_abs()).await?),
            "*" => {
                let mut items = Vec::new();
                for _ in 0..number()? {
                    items.push(read_value(stream).await?);
                }
                Value::Array(items)
            }
            _ => return Err(invalid(line)),
        })
    })
}

async fn read_bulk(stream: &mut BufReader<TcpStream>, len: u64) -> io::Result<Bytes> {
    let len = usize::try_from(len).map_err(|_| invalid("a length out of range"))?;
    let mut bytes = vec![0; len + 2];
    stream.read_exact(&mut bytes).await?;
    bytes.truncate(len);
    Ok(bytes.into())
}

fn parse_commandstat(line: &str) -> Option<(String, u64)> {
    let (name, stats) = line.strip_prefix("cmdstat_")?.split_once(':')?;
    let calls = stats.strip_prefix("calls=")?.split(',').next()?;
    Some((name.to_owned(), calls.parse().ok()?))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("unexpected reply: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Server;

    #[tokio::test]
    async fn every_kind_of_reply_is_read() {
        let server = Server::start().await;
        let mut raw = server.raw().await;
        let script = "return {1, 'two', {3}, false, redis.status_reply('FOUR')}";
        let reply = raw.command(&["EVAL", script, "0"]).await.unwrap().list();
        assert_eq!(reply[0], Value::Int(1));
        assert_eq!(reply[1], Value::Bulk("two".into()));
        assert_eq!(reply[2], Value::Array(vec![Value::Int(3)]));
        assert!(reply[3].is_nil());
        assert_eq!(reply[4], Value::Status("FOUR".into()));
        assert!(matches!(raw.command(&["NONSENSE"]).await.unwrap(), Value::Error(_)));
    }

    #[tokio::test]
    async fn a_subscriber_gets_what_is_published() {
        let server = Server::start().await;
        let (mut subscriber, mut raw) = (server.raw().await, server.raw().await);
        subscriber.subscribe("news").await.unwrap();
        assert_eq!(raw.pubsub_channels().await.unwrap(), ["news"]);
        assert_eq!(raw.subscribers("news").await.unwrap(), 1);
        assert_eq!(raw.client_count().await.unwrap(), 1);
        raw.command(&["PUBLISH", "news", "0"]).await.unwrap();
        assert_eq!(subscriber.next_message().await.unwrap(), ("news".into(), "0".into()));
    }

    #[tokio::test]
    async fn keys_hashes_and_counts_can_be_looked_at() {
        let server = Server::start().await;
        let mut raw = server.raw().await;
        raw.command(&["HSET", "h", "f", "1"]).await.unwrap();
        raw.command(&["SET", "b", "x"]).await.unwrap();
        assert_eq!(raw.keys().await.unwrap(), ["b", "h"]);
        assert_eq!(raw.keys_like("b*").await.unwrap(), ["b"]);
        assert_eq!(raw.hash("h").await.unwrap()["f"], "1");
        assert_eq!(raw.commandstats().await.unwrap()["hset"], 1);
        raw.reset_stats().await.unwrap();
        assert_eq!(raw.commandstats().await.unwrap().get("hset"), None);
    }
}
