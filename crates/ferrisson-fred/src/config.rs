//! From what the user asked for to fred's configuration: the only place that knows the latter.

use std::time::Duration;

use fred::{
    clients::Client,
    interfaces::{ClientLike, ClusterInterface},
    types::{
        Builder, RespVersion,
        config::{
            Blocking, Config, ConnectionConfig, Options, PerformanceConfig, ReconnectPolicy,
            Server, ServerConfig, TcpConfig,
        },
    },
};
use socket2::TcpKeepalive;

use crate::{
    Protocol,
    url::{Address, Credentials, Host, Topology},
};

/// Messages that may wait in a client before the receiver counts as lagging.
const MESSAGE_CAPACITY: usize = 8192;
const KEEPALIVE_IDLE: Duration = Duration::from_secs(5);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
const KEEPALIVE_RETRIES: u32 = 2;

/// How long sent data may stay unacknowledged before the kernel gives the connection up, and with
/// it the requests that could still arrive.
#[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(3);

/// Time limits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) command: Duration,
    pub(crate) connect: Duration,
}

/// How to make clients.
#[derive(Clone)]
pub(crate) struct Plan {
    config: Config,
    timeouts: Timeouts,
}

impl Plan {
    pub(crate) fn new(mut config: Config, timeouts: Timeouts) -> Self {
        // FCALL and the like count as blocking with fred; they must not be refused for it.
        config.blocking = Blocking::Block;
        Self { config, timeouts }
    }

    pub(crate) const fn timeouts(&self) -> Timeouts {
        self.timeouts
    }

    pub(crate) fn is_cluster(&self) -> bool {
        self.config.server.is_clustered()
    }

    /// How many different first hosts there are to try.
    pub(crate) fn rotations(&self) -> usize {
        match &self.config.server {
            ServerConfig::Sentinel { hosts, .. } => hosts.len().max(1),
            _ => 1,
        }
    }

    /// A new client. It tries the hosts from the one at `rotation` on. With `strict`, its
    /// connection task ends if the first connection fails.
    pub(crate) fn client(&self, rotation: usize, strict: bool) -> Client {
        let mut config = self.config.clone();
        config.fail_fast = strict;
        if let ServerConfig::Sentinel { hosts, .. } = &mut config.server {
            let middle = rotation % hosts.len().max(1);
            hosts.rotate_left(middle);
        }
        let mut builder = Builder::from_config(config);
        builder
            .set_policy(reconnect_policy())
            .set_connection_config(connection_config(self.timeouts))
            .set_performance_config(PerformanceConfig {
                default_command_timeout: self.timeouts.command,
                broadcast_channel_capacity: MESSAGE_CAPACITY,
                ..PerformanceConfig::default()
            });
        builder.build().expect("a builder with a configuration builds")
    }

    /// The options of a command. `fail_fast`: fail at once when there is no connection.
    pub(crate) fn options(timeout: Duration, fail_fast: bool) -> Options {
        Options { timeout: Some(timeout), fail_fast, ..Options::default() }
    }

    /// The plan for a client of one server of this deployment.
    pub(crate) fn of_node(&self, server: Server) -> Self {
        let mut plan = self.clone();
        plan.config.server = ServerConfig::Centralized { server };
        plan
    }

    /// The hosts that the user has named.
    pub(crate) fn hosts(&self) -> Vec<Server> {
        self.config.server.hosts()
    }

    /// With sentinels: the name of the service, and how to reach each of them.
    pub(crate) fn sentinels(&self) -> Option<(String, Vec<Self>)> {
        let ServerConfig::Sentinel { hosts, service_name, username, password } =
            &self.config.server
        else {
            return None;
        };
        let plans = hosts.iter().map(|host| {
            let mut plan = self.of_node(host.clone());
            plan.config.username.clone_from(username);
            plan.config.password.clone_from(password);
            plan.config.database = None;
            // HELLO is not known to every sentinel.
            plan.config.version = RespVersion::RESP2;
            plan
        });
        Some((service_name.clone(), plans.collect()))
    }
}

/// The server that a client sends commands of a slot to, as far as it knows.
pub(crate) fn slot_owner(client: &Client, slot: u16) -> Option<Server> {
    if !client.is_clustered() {
        return None;
    }
    client.cached_cluster_state()?.get_server(slot).cloned()
}

/// The primaries of a cluster, as far as a client knows them.
pub(crate) fn primaries(client: &Client) -> Vec<Server> {
    client.cached_cluster_state().map(|state| state.unique_primary_nodes()).unwrap_or_default()
}

/// fred's configuration for an address.
pub(crate) fn config(address: Address) -> Config {
    let version = match address.protocol.unwrap_or_default() {
        Protocol::Resp2 => RespVersion::RESP2,
        Protocol::Resp3 => RespVersion::RESP3,
    };
    let (username, password) = split(address.credentials);
    let server = match address.topology {
        Topology::Single((host, port)) => ServerConfig::new_centralized(host, port),
        Topology::Cluster(hosts) => ServerConfig::new_clustered(hosts),
        Topology::Sentinel { hosts, master, credentials } => {
            let (username, password) = split(credentials);
            let hosts = hosts.into_iter().map(|(host, port): Host| Server::new(host, port));
            ServerConfig::Sentinel {
                hosts: hosts.collect(),
                service_name: master,
                username,
                password,
            }
        }
    };
    Config { server, version, username, password, database: address.database, ..Config::default() }
}

fn split(credentials: Credentials) -> (Option<String>, Option<String>) {
    (credentials.username, credentials.password.map(|secret| secret.0))
}

/// Never ends, and starts at once: until the first delay is over fred takes a broken connection
/// for a good one.
fn reconnect_policy() -> ReconnectPolicy {
    let mut policy = ReconnectPolicy::new_exponential(0, 5, 250, 2);
    policy.set_jitter(20);
    policy
}

fn connection_config(timeouts: Timeouts) -> ConnectionConfig {
    ConnectionConfig {
        // More would execute a command again after a lost reply.
        max_command_attempts: 1,
        // fred's way of following ASK gives replies to the wrong callers. With none, MOVED and ASK
        // come back to us, and MOVED still refreshes the map of slots.
        max_redirections: 0,
        // fred miscounts its buffer after the first refusal; the connection has a limit of its own.
        max_command_buffer_len: 0,
        connection_timeout: timeouts.connect,
        internal_command_timeout: timeouts.connect,
        // With these, a READONLY for one command would break the connection under all others and
        // leave their outcome unknown. The supervisor reconnects instead.
        reconnect_errors: Vec::new(),
        tcp: TcpConfig {
            nodelay: Some(true),
            keepalive: Some(
                TcpKeepalive::new()
                    .with_time(KEEPALIVE_IDLE)
                    .with_interval(KEEPALIVE_INTERVAL)
                    .with_retries(KEEPALIVE_RETRIES),
            ),
            #[cfg(any(target_os = "android", target_os = "fuchsia", target_os = "linux"))]
            user_timeout: Some(TCP_USER_TIMEOUT),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    }
}
