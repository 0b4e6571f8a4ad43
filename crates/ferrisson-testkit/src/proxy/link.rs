//! One client's connection through the proxy.
//!
//! Requests are read, judged and queued; a writer sends each when it is due. Replies come back in
//! order, so each is matched with the fate that its request was given.

use std::{
    collections::VecDeque,
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Duration, Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    Shared, resp,
    rule::{Action, Direction, RuleState, lock},
};

#[derive(Debug)]
pub(super) struct Link {
    shared: Arc<Shared>,
    pub(super) cut: CancellationToken,
    pub(super) subscriber: AtomicBool,
    requests_lost: AtomicBool,
    replies_lost: AtomicBool,
    fates: Mutex<Fates>,
    to_client: UnboundedSender<Parcel>,
}

/// What is to become of the replies that are still to come.
#[derive(Debug, Default)]
struct Fates {
    replies: VecDeque<Fate>,
    /// Confirmations of subscriptions: no replies in RESP3, and one for each channel.
    confirmations: VecDeque<Fate>,
}

#[derive(Debug)]
enum Fate {
    Deliver,
    /// A reply that the proxy makes up.
    MadeUp(Bytes),
    Cut(Arc<RuleState>),
    CutWithin(Arc<RuleState>),
    BlackHole(Arc<RuleState>),
}

/// A parcel with nothing in it ends the connection.
const END: Bytes = Bytes::new();

#[derive(Debug)]
struct Parcel {
    due: Instant,
    gate: Option<CancellationToken>,
    bytes: Bytes,
}

/// Carries bytes until one side is closed or the link is cut.
pub(super) async fn run(shared: Arc<Shared>, client: TcpStream, cut: CancellationToken) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", shared.target.port)).await else { return };
    for stream in [&client, &server] {
        // Only slower without it.
        let _ = stream.set_nodelay(true);
    }
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    let (to_client, for_client) = unbounded_channel();
    let (to_server, for_server) = unbounded_channel();
    let link = Arc::new(Link {
        shared,
        cut,
        subscriber: AtomicBool::new(false),
        requests_lost: AtomicBool::new(false),
        replies_lost: AtomicBool::new(false),
        fates: Mutex::default(),
        to_client,
    });
    let id = link.shared.register(&link);
    // A client that closes has still sent what it sent; a server likewise.
    let up =
        async { tokio::join!(link.requests(client_in, to_server), write(for_server, server_out)) };
    let down = async {
        tokio::select! {
            _ = write(for_client, client_out) => {}
            () = link.replies_to_the_end(server_in) => {}
        }
    };
    tokio::select! {
        () = link.cut.cancelled() => {}
        _ = up => {}
        () = down => {}
    }
    link.shared.unregister(id);
}

impl Link {
    pub(super) fn black_hole(&self, direction: Direction) {
        if direction != Direction::Replies {
            self.requests_lost.store(true, Ordering::Release);
        }
        if direction != Direction::Requests {
            self.replies_lost.store(true, Ordering::Release);
        }
    }

    async fn requests(
        &self,
        mut stream: OwnedReadHalf,
        to_server: UnboundedSender<Parcel>,
    ) -> io::Result<()> {
        let mut buffer = BytesMut::new();
        while stream.read_buf(&mut buffer).await? > 0 {
            self.shared.until_flowing(Direction::Requests).await;
            while let Some(frame) = resp::take_frame(&mut buffer)? {
                if let Some(parcel) = self.on_request(frame) {
                    let _ = to_server.send(parcel);
                }
            }
        }
        Ok(())
    }

    async fn replies_to_the_end(&self, stream: OwnedReadHalf) {
        // Closed or broken is the same here: the client gets what came, and then the end.
        let _ = self.replies(stream).await;
        self.deliver(END);
        std::future::pending().await
    }

    async fn replies(&self, mut stream: OwnedReadHalf) -> io::Result<()> {
        let mut buffer = BytesMut::new();
        while stream.read_buf(&mut buffer).await? > 0 {
            self.shared.until_flowing(Direction::Replies).await;
            while let Some(frame) = resp::take_frame(&mut buffer)? {
                self.on_reply(&frame);
            }
        }
        Ok(())
    }

    /// Decides about a request: what goes to the server, if anything.
    fn on_request(&self, frame: Bytes) -> Option<Parcel> {
        let args = resp::args(&frame);
        let rule = self.shared.judge(&args);
        let (mut delay, mut gate, mut fate) = (Duration::ZERO, None, Fate::Deliver);
        if let Some(rule) = rule {
            match rule.action() {
                Action::Pass => rule.fire(),
                Action::Delay(time) => {
                    delay = *time;
                    rule.fire();
                }
                Action::Hold => {
                    gate = Some(rule.gate.clone());
                    rule.fire();
                }
                Action::Answer(text) => {
                    let made_up = Bytes::from(format!("{text}\r\n"));
                    self.expect(&args, Fate::MadeUp(made_up));
                    rule.fire();
                    return None;
                }
                Action::CutBefore => {
                    self.cut.cancel();
                    rule.fire();
                    return None;
                }
                Action::CutAfter => fate = Fate::Cut(rule),
                Action::CutWithin => fate = Fate::CutWithin(rule),
                Action::BlackHole(Direction::Replies) => fate = Fate::BlackHole(rule),
                Action::BlackHole(direction) => {
                    self.black_hole(*direction);
                    rule.fire();
                }
            }
        }
        if self.requests_lost.load(Ordering::Acquire) {
            return None;
        }
        self.expect(&args, fate);
        Some(Parcel { due: self.shared.due(Direction::Requests) + delay, gate, bytes: frame })
    }

    fn expect(&self, args: &[Bytes], fate: Fate) {
        let mut fates = lock(&self.fates);
        let name = args.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        if name.ends_with(b"SUBSCRIBE") {
            self.subscriber.store(true, Ordering::Release);
            fates.confirmations.push_back(fate);
            fates.confirmations.extend(args.iter().skip(2).map(|_| Fate::Deliver));
        } else {
            fates.replies.push_back(fate);
        }
        self.deliver_made_up(&mut fates);
    }

    fn on_reply(&self, frame: &Bytes) {
        let mut fates = lock(&self.fates);
        let fate = match self.kind(frame) {
            Kind::Message => None,
            Kind::Confirmation => fates.confirmations.pop_front(),
            Kind::Reply => fates.replies.pop_front(),
        };
        match fate.unwrap_or(Fate::Deliver) {
            Fate::Deliver | Fate::MadeUp(_) => self.deliver(frame.clone()),
            Fate::Cut(rule) => {
                self.cut.cancel();
                rule.fire();
            }
            Fate::CutWithin(rule) => {
                self.deliver(frame.slice(..frame.len() / 2));
                self.deliver(END);
                rule.fire();
            }
            Fate::BlackHole(rule) => {
                self.black_hole(Direction::Replies);
                rule.fire();
            }
        }
        self.deliver_made_up(&mut fates);
    }

    fn deliver_made_up(&self, fates: &mut Fates) {
        for queue in [&mut fates.replies, &mut fates.confirmations] {
            while let Some(Fate::MadeUp(bytes)) = queue.front() {
                self.deliver(bytes.clone());
                queue.pop_front();
            }
        }
    }

    fn deliver(&self, bytes: Bytes) {
        if !self.replies_lost.load(Ordering::Acquire) {
            let due = self.shared.due(Direction::Replies);
            let _ = self.to_client.send(Parcel { due, gate: None, bytes });
        }
    }

    fn kind(&self, frame: &Bytes) -> Kind {
        let push = frame.starts_with(b">");
        let maybe = self.subscriber.load(Ordering::Acquire) && frame.starts_with(b"*");
        if !push && !maybe {
            return Kind::Reply;
        }
        match resp::elements(frame).first() {
            Some(kind) if kind.ends_with(b"subscribe") => Kind::Confirmation,
            Some(kind) if push || kind.ends_with(b"message") => Kind::Message,
            _ => Kind::Reply,
        }
    }
}

enum Kind {
    Reply,
    Confirmation,
    Message,
}

async fn write(
    mut parcels: UnboundedReceiver<Parcel>,
    mut stream: OwnedWriteHalf,
) -> io::Result<()> {
    while let Some(parcel) = parcels.recv().await {
        sleep_until(parcel.due).await;
        if let Some(gate) = parcel.gate {
            gate.cancelled().await;
        }
        if parcel.bytes.is_empty() {
            break;
        }
        stream.write_all(&parcel.bytes).await?;
    }
    Ok(())
}
