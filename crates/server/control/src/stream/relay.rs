//! Relay of messages between the ends. Each direction holds one message and accepts the next after that was sent, so a slow
//! reader applies backpressure to the writer, and memory use stays bounded.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::stream::BoxStream;
use futures::{Sink, SinkExt as _, StreamExt as _};
use muster_wire::stream::{Channel, Control};
use tokio::time::{MissedTickBehavior, interval_at, sleep_until};

use super::end::{End, Frame};

const PING: Duration = Duration::from_secs(15);
/// Time without a frame after which an end is lost: four pings.
const SILENCE: Duration = Duration::from_secs(60);

/// Outcome of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The cell reported its end, which was relayed.
    NewEvent,
    /// The client has disconnected.
    Left,
    /// It cannot continue; the client receives the reason.
    Broken(String),
}

/// Signs of life, shared by both directions and the guard.
#[derive(Debug)]
pub(super) struct Signs {
    began: Instant,
    /// Milliseconds from the start to the last message.
    said: AtomicU64,
    /// Whether a message waits to be accepted, by the client and by the node.
    stalled: [AtomicBool; 2],
}

const USER: usize = 0;
const NODE: usize = 1;

impl Default for Signs {
    fn default() -> Self {
        Self { began: Instant::now(), said: AtomicU64::new(0), stalled: Default::default() }
    }
}

impl Signs {
    fn speak(&self) {
        let passed = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.said.store(passed, Ordering::Relaxed);
    }

    /// Returns the time since the last message.
    pub(super) fn idle(&self) -> Duration {
        self.began.elapsed().saturating_sub(Duration::from_millis(self.said.load(Ordering::Relaxed)))
    }
}

/// Relays messages both ways until either end closes.
pub(super) async fn relay(user: &mut End, node: &mut End, signs: &Signs) -> Ended {
    tokio::select! {
        ended = carry(&mut user.source, &mut node.sink, signs, [USER, NODE], from_user) => ended,
        ended = carry(&mut node.source, &mut user.sink, signs, [NODE, USER], from_node) => ended,
    }
}

/// Handling of a message.
enum Passes {
    On,
    /// It is the last one.
    Last,
    Never(&'static str),
}

fn from_user(message: &[u8]) -> Passes {
    match Channel::read(message) {
        Some((Channel::Input, _)) => Passes::On,
        Some((Channel::Control, text)) => match serde_json::from_slice(text) {
            Ok(Control::Resize { .. } | Control::InputEnded {}) => Passes::On,
            _ => Passes::Never("a control message arrived that is not allowed here"),
        },
        _ => Passes::Never("a message arrived on the wrong channel: yours are 0 and 3"),
    }
}

fn from_node(message: &[u8]) -> Passes {
    match Channel::read(message) {
        Some((Channel::Output | Channel::Error, _)) => Passes::On,
        Some((Channel::Control, text)) => match serde_json::from_slice(text) {
            Ok(Control::Started {}) => Passes::On,
            Ok(Control::Exited { .. } | Control::Failed { .. }) => Passes::Last,
            _ => Passes::Never("the node's agent sent an invalid message"),
        },
        _ => Passes::Never("the node's agent sent an invalid message"),
    }
}

async fn carry(
    source: &mut BoxStream<'static, Frame>,
    sink: &mut (impl Sink<Frame, Error = String> + Unpin),
    signs: &Signs,
    [from, to]: [usize; 2],
    passes: fn(&[u8]) -> Passes,
) -> Ended {
    let lost = |end: usize| match end {
        USER => Ended::Left,
        _ => Ended::Broken("the connection to the node was lost".to_owned()),
    };
    let mut pings = interval_at(tokio::time::Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = tokio::time::Instant::now();
    loop {
        let frame = tokio::select! {
            frame = source.next() => frame,
            () = sleep_until(heard + SILENCE) => {
                // An end that does not read may not have reached our pings yet; a lost connection fails by itself.
                if !signs.stalled[from].load(Ordering::Relaxed) {
                    return lost(from);
                }
                heard = tokio::time::Instant::now();
                continue;
            }
            _ = pings.tick() => {
                if sink.send(Frame::Ping).await.is_err() {
                    return lost(to);
                }
                continue;
            }
        };
        heard = tokio::time::Instant::now();
        let message = match frame {
            Some(Frame::Message(message)) => message,
            Some(Frame::Ping) => continue,
            Some(Frame::Strange(why)) => return Ended::Broken(why),
            None => return lost(from),
        };
        let last = match passes(&message) {
            Passes::On => false,
            Passes::Last => true,
            Passes::Never(why) => return Ended::Broken(why.to_owned()),
        };
        signs.speak();
        signs.stalled[to].store(true, Ordering::Relaxed);
        if sink.send(Frame::Message(message)).await.is_err() {
            return lost(to);
        }
        signs.stalled[to].store(false, Ordering::Relaxed);
        if last {
            return Ended::NewEvent;
        }
    }
}
