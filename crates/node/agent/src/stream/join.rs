//! Streams of a node: each starts at once and runs beside all other work.

use std::collections::BTreeSet;
use std::convert::Infallible;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;
use muster_ids::{StreamId, TaskId};
use muster_wire::stream::{StreamOrder, StreamWhat};
use muster_wire::task::{Ending, Findings, Report};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::inside::StartedProcess;
use super::pump::{Ends, pump, refuse};
use super::socket::{Socket, open};
use super::terminal;
use crate::node::Running;

/// Maximum concurrent streams, to protect the node's own work; the server has a limit for each tenant.
const MOST: usize = 256;

/// A task with a stream.
#[derive(Debug)]
pub(crate) struct StreamTask {
    pub(crate) id: TaskId,
    pub(crate) incarnation: i64,
    pub(crate) generation: i64,
    pub(crate) correlation_id: String,
    pub(crate) expires_at: Timestamp,
    pub(crate) order: Box<StreamOrder>,
}

/// Stream tasks waiting to be connected.
#[derive(Debug)]
pub(crate) struct Streams {
    come: mpsc::UnboundedSender<StreamTask>,
    /// Taken by the one loop that connects them.
    waiting: Mutex<Option<mpsc::UnboundedReceiver<StreamTask>>>,
}

impl Default for Streams {
    fn default() -> Self {
        let (come, waiting) = mpsc::unbounded_channel();
        Self { come, waiting: Mutex::new(Some(waiting)) }
    }
}

impl Streams {
    /// Queues a task. The queue is drained at once regardless of the streams, so it holds at most the tasks of one response.
    pub(crate) fn add(&self, task: StreamTask) {
        let _ = self.come.send(task);
    }
}

/// Connects streams as their tasks arrive, forever.
pub(crate) async fn streaming(node: &Running) -> Infallible {
    let waiting = node.streams.waiting.lock().take();
    let Some(mut waiting) = waiting else { return std::future::pending().await };
    let mut under_way = FuturesUnordered::new();
    let mut known: BTreeSet<StreamId> = BTreeSet::new();
    loop {
        tokio::select! {
            Some(task) = waiting.recv() => {
                let stream = task.order.stream_id;
                if task.expires_at <= node.env.now() || !known.insert(stream) {
                    continue;
                }
                if under_way.len() >= MOST {
                    known.remove(&stream);
                    report(node, &task, Err(format!("the node already has {MOST} streams")));
                    continue;
                }
                under_way.push(one(node, task));
            }
            Some(stream) = under_way.next() => drop(known.remove(&stream)),
        }
    }
}

fn report(node: &Running, task: &StreamTask, joined: Result<(), String>) {
    if let Err(why) = &joined {
        let correlation_id = &task.correlation_id;
        tracing::warn!(task = %task.id, correlation_id, why, "a stream was not joined");
    }
    node.outbox.put(Report {
        task_id: task.id,
        incarnation: task.incarnation,
        generation: task.generation,
        ending: if joined.is_ok() { Ending::Done } else { Ending::Failed },
        findings: Findings::default(),
        message: joined.err().map(|why| node.host_paths.remove_from(&why)),
    });
}

async fn one(node: &Running, task: StreamTask) -> StreamId {
    let stream = task.order.stream_id;
    let mut cut = node.dial.cut.clone();
    let severed = async {
        // With the sender dropped, the cable can no longer be cut.
        if cut.wait_for(|cut| *cut).await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let whole = async {
        match dial(node, &task.order).await {
            Err(why) => report(node, &task, Err(why)),
            Ok(socket) => {
                report(node, &task, Ok(()));
                tracing::info!(%stream, cell = %task.order.cell.cell_id, correlation_id = task.correlation_id, "a stream begins");
                carry(node, socket, task.order).await;
                tracing::info!(%stream, correlation_id = task.correlation_id, "a stream is over");
            }
        }
    };
    tokio::select! {
        () = severed => {}
        () = whole => {}
    }
    stream
}

async fn dial(node: &Running, order: &StreamOrder) -> Result<Socket, String> {
    let address = match &order.address {
        None => node.dial.address.clone(),
        Some(address) => {
            format!("https://{address}").parse().map_err(|error: crate::AgentError| error.to_string())?
        }
    };
    open(&node.dial, &address, order.stream_id).await.map_err(|error| error.to_string())
}

async fn carry(node: &Running, socket: Socket, order: Box<StreamOrder>) {
    let inside = node.driver.clone().inside();
    // Starting may block, so it runs on a blocking thread.
    let begun = tokio::task::spawn_blocking(move || begin(&*inside, &order)).await;
    let begun = begun.unwrap_or_else(|_| Err("the agent failed".to_owned()));
    let ends = begun.and_then(|(begun, ours)| {
        Ends::of(begun, ours).map_err(|error| format!("its descriptors cannot be used: {error}"))
    });
    match ends {
        Ok(ends) => pump(socket, ends).await,
        Err(why) => refuse(socket, why).await,
    }
}

type Ours = Option<std::os::fd::OwnedFd>;

fn begin(inside: &dyn super::Inside, order: &StreamOrder) -> Result<(StartedProcess, Ours), String> {
    let (cell, incarnation) = (order.cell.cell_id, order.cell.incarnation);
    let without = |begun: StartedProcess| (begun, None);
    match &order.what {
        StreamWhat::Command(command) if command.terminal => {
            let (ours, theirs) = terminal::open(command.columns, command.rows)
                .map_err(|error| format!("the node has no terminal left: {error}"))?;
            Ok((inside.command(cell, incarnation, command, Some(theirs))?, Some(ours)))
        }
        StreamWhat::Command(command) => inside.command(cell, incarnation, command, None).map(without),
        StreamWhat::Logs(logs) => inside.logs(cell, incarnation, logs).map(without),
        StreamWhat::Read(file) => inside.read(cell, incarnation, file).map(without),
        StreamWhat::Write(file) => inside.write(cell, incarnation, file).map(without),
    }
}
