//! Bytes between a stream's socket and what was begun in the cell. One message is under way at a time in each direction, so
//! whoever is slow holds up the other end, and nothing piles up in between.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use muster_wire::stream::{Channel, Control};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use tokio_tungstenite::tungstenite::{Bytes, Message};

use super::descriptor::Descriptor;
use super::inside::{Begun, Work};
use super::process::Process;
use super::socket::Socket;
use super::terminal;

const PIECE: usize = 32 << 10;
const PING: Duration = Duration::from_secs(15);
/// A server that says nothing for four pings is gone.
const SILENCE: Duration = Duration::from_secs(60);
/// After a program's end, what its children still write is waited for no longer than this.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// For saying goodbye to a server that may not listen.
const GOODBYE: Duration = Duration::from_secs(5);

type Sending = SplitSink<Socket, Message>;

/// Our ends of what was begun.
pub(super) struct Ends {
    input: Option<Descriptor>,
    whole: Option<Arc<AtomicBool>>,
    output: Option<Arc<Descriptor>>,
    error: Option<Descriptor>,
    /// The same as `output`, where input and output are one.
    terminal: Option<Arc<Descriptor>>,
    ending: Ending,
}

enum Ending {
    Process(Process),
    Work(tokio::sync::oneshot::Receiver<Result<i32, String>>),
}

impl Ending {
    async fn seen(&mut self) -> Result<i32, String> {
        match self {
            Self::Process(process) => process.ended().await.map_err(|error| error.to_string()),
            Self::Work(ended) => ended.await.unwrap_or_else(|_| Err("the agent failed".to_owned())),
        }
    }
}

impl Ends {
    /// `terminal` is our end of the one that was given to the program.
    pub(super) fn of(begun: Begun, terminal: Option<OwnedFd>) -> std::io::Result<Self> {
        let terminal = terminal.map(|ours| Descriptor::new(ours).map(Arc::new)).transpose()?;
        let mut ends = Self {
            input: None,
            whole: None,
            output: terminal.clone(),
            error: None,
            terminal,
            ending: Ending::Work(tokio::sync::oneshot::channel().1),
        };
        let pipe = |end: Option<OwnedFd>| end.map(Descriptor::new).transpose();
        match begun {
            Begun::Process(mut process) => {
                if let Some(child) = process.child().filter(|_| ends.terminal.is_none()) {
                    ends.input = pipe(child.stdin.take().map(OwnedFd::from))?;
                    ends.output = pipe(child.stdout.take().map(OwnedFd::from))?.map(Arc::new);
                    ends.error = pipe(child.stderr.take().map(OwnedFd::from))?;
                }
                ends.ending = Ending::Process(process);
            }
            Begun::Work(Work { input, output, ended }) => {
                if let Some((writer, whole)) = input {
                    ends.input = pipe(Some(writer.into()))?;
                    ends.whole = Some(whole);
                }
                if let Some(reader) = output {
                    ends.output = pipe(Some(reader.into()))?.map(Arc::new);
                }
                ends.ending = Ending::Work(ended);
            }
        }
        Ok(ends)
    }
}

/// Carries bytes until either end is over; then nothing of what was begun is left.
pub(super) async fn pump(socket: Socket, ends: Ends) {
    let Ends { mut input, whole, output, mut error, terminal, mut ending } = ends;
    let (mut sending, mut receiving) = socket.split();
    let stalled = AtomicBool::new(false);
    let (resized, mut resizes) = tokio::sync::mpsc::channel::<()>(1);
    let ended = {
        let inwards =
            inwards(&mut receiving, &mut input, whole.as_deref(), terminal.as_deref(), &stalled, &resized);
        let outwards = outwards(&mut sending, output, &mut error, &mut ending, &mut resizes, &stalled);
        tokio::select! {
            why = inwards => Err(why),
            said = outwards => said,
        }
    };
    drop((input, error, terminal));
    if let Ending::Process(process) = &mut ending {
        process.end().await;
    }
    match ended {
        Ok(control) => {
            let goodbye = async {
                say(&mut sending, &control).await?;
                sending.close().await
            };
            // Who does not hear it finds the connection closed.
            let _ = timeout(GOODBYE, goodbye).await;
            // The other end closes when it has read everything; closing at once could take the last bytes from it.
            let _ = timeout(GOODBYE, async { while let Some(Ok(_)) = receiving.next().await {} }).await;
        }
        Err(why) => {
            tracing::debug!(why, "a stream ended before what it was for");
            let _ = timeout(GOODBYE, sending.close()).await;
        }
    }
}

/// Says why nothing was begun.
pub(super) async fn refuse(mut socket: Socket, why: String) {
    let message = Channel::Control.message(&json(&Control::Failed { why }));
    let goodbye = async {
        socket.send(Message::Binary(message.into())).await?;
        socket.close(None).await
    };
    let _ = timeout(GOODBYE, goodbye).await;
    let _ = timeout(GOODBYE, async { while let Some(Ok(_)) = socket.next().await {} }).await;
}

fn json(control: &Control) -> Vec<u8> {
    serde_json::to_vec(control).expect("what is said of a stream is JSON")
}

async fn say(sending: &mut Sending, control: &Control) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    sending.send(Message::Binary(Channel::Control.message(&json(control)).into())).await
}

/// From the socket to the cell; returns when no more can come, and why.
async fn inwards(
    receiving: &mut SplitStream<Socket>,
    input: &mut Option<Descriptor>,
    whole: Option<&AtomicBool>,
    terminal: Option<&Descriptor>,
    stalled: &AtomicBool,
    resized: &tokio::sync::mpsc::Sender<()>,
) -> String {
    loop {
        let message = match timeout(SILENCE, receiving.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(Some(Err(error))) => return error.to_string(),
            Ok(None) => return "the server closed the stream".to_owned(),
            // Who does not take what we send may not have come to read our pings either.
            Err(_) if stalled.load(Ordering::Relaxed) => continue,
            Err(_) => return "nothing was heard of the server for a minute".to_owned(),
        };
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Ping(_) | Message::Pong(_) => continue,
            _ => return "the server closed the stream".to_owned(),
        };
        match Channel::read(&bytes) {
            Some((Channel::Input, bytes)) => {
                let written = match (terminal, &*input) {
                    (Some(terminal), _) => terminal.write(bytes).await,
                    (None, Some(pipe)) => pipe.write(bytes).await,
                    (None, None) => Ok(()),
                };
                // A program that reads no more has its reasons; its output and its end still count.
                if written.is_err() {
                    *input = None;
                }
            }
            Some((Channel::Control, text)) => match (serde_json::from_slice(text), terminal) {
                (Ok(Control::Resize { columns, rows }), Some(terminal)) => {
                    // A size that it does not take is none. One that is waiting to be told tells of this one too.
                    let _ = terminal::resize(terminal.as_fd(), columns, rows).map(|()| resized.try_send(()));
                }
                (Ok(Control::InputEnded {}), None) => {
                    if let Some(whole) = whole {
                        whole.store(true, Ordering::Release);
                    }
                    *input = None;
                }
                // On a terminal, the end of input is a key.
                (Ok(Control::InputEnded {}), Some(terminal)) => drop(terminal.write(&[4]).await),
                _ => {}
            },
            _ => return "the server sent what no stream has".to_owned(),
        }
    }
}

/// From the cell to the socket, until what was begun has ended and everything it said was sent.
async fn outwards(
    sending: &mut Sending,
    mut output: Option<Arc<Descriptor>>,
    error: &mut Option<Descriptor>,
    ending: &mut Ending,
    resizes: &mut tokio::sync::mpsc::Receiver<()>,
    stalled: &AtomicBool,
) -> Result<Control, String> {
    let (mut first, mut second) = (vec![0; PIECE], vec![0; PIECE]);
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ended: Option<Result<i32, String>> = None;
    say(sending, &Control::Started {}).await.map_err(|error| error.to_string())?;
    loop {
        if let (Some(ended), true) = (&ended, output.is_none() && error.is_none()) {
            return Ok(match ended {
                Ok(status) => Control::Exited { status: *status },
                Err(why) => Control::Failed { why: why.clone() },
            });
        }
        let last_words = async {
            match ended {
                Some(_) => tokio::time::sleep(LAST_WORDS).await,
                None => std::future::pending().await,
            }
        };
        let message = tokio::select! {
            read = read(output.as_deref(), &mut first) => match read {
                Ok(count @ 1..) => Message::Binary(Channel::Output.message(&first[..count]).into()),
                _ => { output = None; continue; }
            },
            read = read(error.as_ref(), &mut second) => match read {
                Ok(count @ 1..) => Message::Binary(Channel::Error.message(&second[..count]).into()),
                _ => { *error = None; continue; }
            },
            seen = ending.seen(), if ended.is_none() => { ended = Some(seen); continue; }
            () = last_words => { (output, *error) = (None, None); continue; }
            Some(()) = resizes.recv() => {
                if let Ending::Process(process) = &*ending {
                    process.resized();
                }
                continue;
            }
            _ = pings.tick() => Message::Ping(Bytes::new()),
        };
        stalled.store(true, Ordering::Relaxed);
        sending.send(message).await.map_err(|error| error.to_string())?;
        stalled.store(false, Ordering::Relaxed);
    }
}

async fn read(from: Option<&Descriptor>, buffer: &mut [u8]) -> std::io::Result<usize> {
    match from {
        Some(descriptor) => descriptor.read(buffer).await,
        None => std::future::pending().await,
    }
}
