//! Connection URLs. Parsed here and not by fred, whose errors repeat what they could not parse and
//! whose sentinel form knows one host only.

use std::fmt;

use percent_encoding::percent_decode_str;
use url::form_urlencoded;

use crate::{ConnectError, Protocol};

const SERVER_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

/// What a URL says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) topology: Topology,
    pub(crate) tls: bool,
    pub(crate) credentials: Credentials,
    pub(crate) database: Option<u8>,
    pub(crate) protocol: Option<Protocol>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    Single(Host),
    Sentinel { hosts: Vec<Host>, master: String, credentials: Credentials },
    Cluster(Vec<Host>),
}

pub(crate) type Host = (String, u16);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    pub(crate) username: Option<String>,
    pub(crate) password: Option<Secret>,
}

/// A password: everything but its value can be printed.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The parts of a URL, still encoded.
struct Parts<'a> {
    scheme: &'a str,
    userinfo: Option<&'a str>,
    hosts: &'a str,
    path: &'a str,
    query: &'a str,
}

#[derive(Default)]
struct Query {
    nodes: Vec<String>,
    master: Option<String>,
    sentinel: Credentials,
    protocol: Option<Protocol>,
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, ConnectError> {
        let parts = Parts::split(url)?;
        let (tls, kind) = scheme(parts.scheme)?;
        let query = Query::parse(parts.query)?;
        let port = if kind == "sentinel" { SENTINEL_PORT } else { SERVER_PORT };
        let nodes = parts.hosts.split(',').chain(query.nodes.iter().map(String::as_str));
        let mut hosts = nodes.map(|host| parse_host(host, port)).collect::<Result<Vec<_>, _>>()?;
        let database = parse_database(parts.path)?;
        if kind != "sentinel"
            && (query.master.is_some() || query.sentinel != Credentials::default())
        {
            return Err(invalid("`master` and `sentinel…` belong to redis-sentinel://"));
        }
        let topology = match kind {
            "sentinel" => Topology::Sentinel {
                hosts,
                master: query
                    .master
                    .ok_or(invalid("`master` (the name of the service) is missing"))?,
                credentials: query.sentinel,
            },
            "cluster" if database.is_some_and(|database| database != 0) => {
                return Err(invalid("a cluster has no databases"));
            }
            "cluster" => Topology::Cluster(hosts),
            _ if hosts.len() > 1 => {
                return Err(invalid("several hosts need redis-cluster:// or redis-sentinel://"));
            }
            _ => Topology::Single(hosts.remove(0)),
        };
        let credentials = parse_userinfo(parts.userinfo)?;
        Ok(Self { topology, tls, credentials, database, protocol: query.protocol })
    }
}

impl<'a> Parts<'a> {
    fn split(url: &'a str) -> Result<Self, ConnectError> {
        let (scheme, rest) =
            url.trim().split_once("://").ok_or(invalid("the scheme is missing"))?;
        let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
        if !fragment.is_empty() {
            return Err(invalid("`#` must be written as %23"));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (userinfo, hosts) = match authority.rsplit_once('@') {
            Some((userinfo, hosts)) => (Some(userinfo), hosts),
            None => (None, authority),
        };
        Ok(Self { scheme, userinfo, hosts, path, query })
    }
}

impl Query {
    fn parse(query: &str) -> Result<Self, ConnectError> {
        let mut parsed = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let value = value.into_owned();
            match &*name {
                "node" => parsed.nodes.push(value),
                "master" | "sentinelServiceName" => parsed.master = Some(value),
                "sentinelUsername" => parsed.sentinel.username = Some(value),
                "sentinelPassword" => parsed.sentinel.password = Some(Secret(value)),
                "protocol" => parsed.protocol = Some(parse_protocol(&value)?),
                _ => return Err(invalid("unknown option after `?`")),
            }
        }
        Ok(parsed)
    }
}

/// Whether TLS is asked for, and the topology's name.
fn scheme(scheme: &str) -> Result<(bool, &'static str), ConnectError> {
    match scheme {
        "redis" | "valkey" => Ok((false, "single")),
        "rediss" | "valkeys" => Ok((true, "single")),
        "redis-sentinel" | "valkey-sentinel" => Ok((false, "sentinel")),
        "rediss-sentinel" | "valkeys-sentinel" => Ok((true, "sentinel")),
        "redis-cluster" | "valkey-cluster" => Ok((false, "cluster")),
        "rediss-cluster" | "valkeys-cluster" => Ok((true, "cluster")),
        _ => Err(invalid(
            "unknown scheme; use redis://, rediss://, redis-sentinel:// or redis-cluster://",
        )),
    }
}

fn parse_host(text: &str, default_port: u16) -> Result<Host, ConnectError> {
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest.split_once(']').ok_or(invalid("`]` is missing in a host"))?;
        (host, port.strip_prefix(':').or(port.is_empty().then_some("")))
    } else {
        let (host, port) = text.split_once(':').unwrap_or((text, ""));
        (host, Some(port))
    };
    if host.is_empty() {
        return Err(invalid("a host is missing"));
    }
    let port = match port {
        Some("") => default_port,
        Some(port) => port.parse().map_err(|_| invalid("a port is not a number up to 65535"))?,
        None => return Err(invalid("a host is followed by something other than a port")),
    };
    Ok((decode(host)?, port))
}

fn parse_userinfo(userinfo: Option<&str>) -> Result<Credentials, ConnectError> {
    let Some(userinfo) = userinfo else { return Ok(Credentials::default()) };
    let (username, password) = userinfo
        .split_once(':')
        .ok_or(invalid("a user without a password; write user:password@"))?;
    let username = decode(username)?;
    Ok(Credentials {
        username: (!username.is_empty()).then_some(username),
        password: Some(Secret(decode(password)?)),
    })
}

fn parse_database(path: &str) -> Result<Option<u8>, ConnectError> {
    match path.trim_end_matches('/') {
        "" => Ok(None),
        path => match path.parse() {
            Ok(database) => Ok(Some(database)),
            Err(_) => Err(invalid("the database is not a number up to 255")),
        },
    }
}

fn parse_protocol(value: &str) -> Result<Protocol, ConnectError> {
    match value {
        "resp2" | "2" => Ok(Protocol::Resp2),
        "resp3" | "3" => Ok(Protocol::Resp3),
        _ => Err(invalid("`protocol` is neither resp2 nor resp3")),
    }
}

fn decode(text: &str) -> Result<String, ConnectError> {
    let decoded = percent_decode_str(text).decode_utf8();
    Ok(decoded.map_err(|_| invalid("a part is not UTF-8"))?.into_owned())
}

/// Reasons are fixed texts, so that no part of a URL, which may be the password, gets into them.
const fn invalid(reason: &'static str) -> ConnectError {
    ConnectError::Url { reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Address {
        Address::parse(url).unwrap()
    }

    fn host(name: &str, port: u16) -> Host {
        (name.to_owned(), port)
    }

    fn credentials(username: Option<&str>, password: &str) -> Credentials {
        Credentials {
            username: username.map(str::to_owned),
            password: Some(Secret(password.to_owned())),
        }
    }

    #[test]
    fn a_single_server_has_defaults_for_all_but_the_host() {
        let address = parse("redis://localhost");
        assert_eq!(address.topology, Topology::Single(host("localhost", 6379)));
        assert_eq!(address.credentials, Credentials::default());
        assert!(!address.tls && address.database.is_none() && address.protocol.is_none());
    }

    #[test]
    fn every_part_of_a_single_server_is_read() {
        let address = parse("valkeys://us%40er:p%2Fa+s:s@[::1]:7000/3?protocol=resp2");
        assert_eq!(address.topology, Topology::Single(host("::1", 7000)));
        assert_eq!(address.credentials, credentials(Some("us@er"), "p/a+s:s"));
        assert!(address.tls);
        assert_eq!(address.database, Some(3));
        assert_eq!(address.protocol, Some(Protocol::Resp2));
        assert_eq!(parse("redis://:123@h").credentials, credentials(None, "123"));
    }

    #[test]
    fn sentinels_are_a_list_of_hosts_and_the_name_of_the_master() {
        let address = parse(
            "redis-sentinel://:pw@a:1,b/2?master=orders&sentinelUsername=s&sentinelPassword=t&node=c:3",
        );
        let hosts = vec![host("a", 1), host("b", 26379), host("c", 3)];
        let expected = Topology::Sentinel {
            hosts,
            master: "orders".into(),
            credentials: credentials(Some("s"), "t"),
        };
        assert_eq!(address.topology, expected);
        assert_eq!((address.database, address.credentials), (Some(2), credentials(None, "pw")));
        let other = parse("redis-sentinel://a?sentinelServiceName=orders");
        assert!(matches!(other.topology, Topology::Sentinel { master, .. } if master == "orders"));
    }

    #[test]
    fn a_cluster_is_a_list_of_hosts() {
        let address = parse("rediss-cluster://a,b:7001?node=c:7002");
        let hosts = vec![host("a", 6379), host("b", 7001), host("c", 7002)];
        assert_eq!(address.topology, Topology::Cluster(hosts));
        assert!(address.tls);
    }

    #[test]
    fn a_url_that_cannot_work_is_refused_without_repeating_it() {
        for url in [
            "hunter2",
            "http://:hunter2@h",
            "redis://:hunter2@",
            "redis://:hunter2/x@h",
            "redis://:hunter2@h:port",
            "redis://:hunter2@h:99999",
            "redis://hunter2@h",
            "redis://:hunter2@h/first",
            "redis://:hunter2@h/256",
            "redis://:hunter2@h#1",
            "redis://:hunter2@h?protocol=9",
            "redis://:hunter2@h?hunter2=1",
            "redis://:hunter2@[::1",
            "redis://:hunter2@[::1]x",
            "redis://:hunter2@a,b",
            "redis://:hunter2@h?master=m",
            "redis://h?sentinelPassword=hunter2",
            "redis://:%ffhunter2@h",
            "redis-sentinel://:hunter2@h",
            "redis-cluster://:hunter2@h/1",
        ] {
            let error = Address::parse(url).unwrap_err();
            assert!(matches!(error, ConnectError::Url { .. }), "{url}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{url}");
        }
    }

    #[test]
    fn a_password_is_not_printed() {
        let address = parse("redis-sentinel://u:hunter2@h?master=m&sentinelPassword=hunter2");
        assert!(!format!("{address:?}").contains("hunter2"));
    }
}
