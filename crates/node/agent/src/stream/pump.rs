//! Copies bytes between a stream's socket and the work in the cell. One message is in flight in each direction, so a slow
//! end slows the other down, and nothing accumulates in between.

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
use super::inside::{StartedProcess, Work};
use super::process::Process;
use super::socket::Socket;
use super::terminal;

const PIECE: usize = 32 << 10;
const PING: Duration = Duration::from_secs(15);
/// Timeout of a silent server: four pings.
const SILENCE: Duration = Duration::from_secs(60);
/// Time to wait for output of a program's children after its end.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Timeout for closing the connection to a server that may not respond.
const GOODBYE: Duration = Duration::from_secs(5);

type Sending = SplitSink<Socket, Message>;

/// Our ends of the started work.
pub(super) struct Ends {
    input: Option<Descriptor>,
    whole: Option<Arc<AtomicBool>>,
    output: Option<Arc<Descriptor>>,
    error: Option<Descriptor>,
    /// The same as `output` if input and output are one.
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
    /// Wraps the started work. `terminal` is our end of the program's terminal.
    pub(super) fn of(begun: StartedProcess, terminal: Option<OwnedFd>) -> std::io::Result<Self> {
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
            StartedProcess::Process(mut process) => {
                if let Some(child) = process.child().filter(|_| ends.terminal.is_none()) {
                    ends.input = pipe(child.stdin.take().map(OwnedFd::from))?;
                    ends.output = pipe(child.stdout.take().map(OwnedFd::from))?.map(Arc::new);
                    ends.error = pipe(child.stderr.take().map(OwnedFd::from))?;
                }
                ends.ending = Ending::Process(process);
            }
            StartedProcess::Work(Work { input, output, ended }) => {
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

/// Copies bytes until either end closes; nothing of the work is left then.
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
            // A server that misses the message finds the connection closed.
            let _ = timeout(GOODBYE, goodbye).await;
            // The other end closes after reading everything; closing at once could lose the last bytes.
            let _ = timeout(GOODBYE, async { while let Some(Ok(_)) = receiving.next().await {} }).await;
        }
        Err(why) => {
            tracing::debug!(why, "a stream ended before its command");
            let _ = timeout(GOODBYE, sending.close()).await;
        }
    }
}

/// Sends the reason why nothing was started.
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
    serde_json::to_vec(control).expect("a control message is JSON")
}

async fn say(sending: &mut Sending, control: &Control) -> Result<(), tokio_tungstenite::tungstenite::Error> {
    sending.send(Message::Binary(Channel::Control.message(&json(control)).into())).await
}

/// Copies from the socket to the cell; returns the reason when no more can arrive.
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
            // A server that does not read our output may not have read our pings either.
            Err(_) if stalled.load(Ordering::Relaxed) => continue,
            Err(_) => return "no message of the server arrived for a minute".to_owned(),
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
                // A program may stop reading; its output and its exit status still count.
                if written.is_err() {
                    *input = None;
                }
            }
            Some((Channel::Control, text)) => match (serde_json::from_slice(text), terminal) {
                (Ok(Control::Resize { columns, rows }), Some(terminal)) => {
                    // An invalid size is ignored. A pending notification also covers this size.
                    let _ = terminal::resize(terminal.as_fd(), columns, rows).map(|()| resized.try_send(()));
                }
                (Ok(Control::InputEnded {}), None) => {
                    if let Some(whole) = whole {
                        whole.store(true, Ordering::Release);
                    }
                    *input = None;
                }
                // On a terminal, end of input is a key.
                (Ok(Control::InputEnded {}), Some(terminal)) => drop(terminal.write(&[4]).await),
                _ => {}
            },
            _ => return "the server sent an invalid message".to_owned(),
        }
    }
}

/// Copies from the cell to the socket, until the work has ended and all of its output was sent.
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
