//! A running node: what its parts share. Each part is a loop in a file of its own: poll, work, report, renew, look.

use std::sync::{Arc, Mutex};

use muster_ids::World;
use tokio::sync::{Notify, watch};

use crate::AgentError;
use crate::alone::Heard;
use crate::dial::Dial;
use crate::driver::Driver;
use crate::fence::Fences;
use crate::folder::Folder;
use crate::identity::Identity;
use crate::lanes::{Job, Lanes};
use crate::link::CallError;
use crate::machine::Machine;
use crate::outbox::Outbox;
use crate::provide::{Store, Verdicts};
use crate::stream::Streams;
use crate::trust;

/// How far a node has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The server has not taken it up.
    Away,
    /// It waits for work, and nothing is there that must not be.
    Polling,
}

/// What an agent runs with.
#[derive(Debug)]
pub struct Agent {
    /// Where it keeps what must outlive it.
    pub folder: Folder,
    /// Who it is.
    pub identity: Identity,
    /// What it has.
    pub machine: Machine,
    /// Who makes its places.
    pub driver: Driver,
    /// Time and randomness.
    pub world: World,
    /// While true, nothing gets to the server or back.
    pub cut: watch::Receiver<bool>,
    /// Tells how far it has come.
    pub phase: watch::Sender<Phase>,
}

/// What the parts of a running node share.
pub(crate) struct Running {
    pub(crate) folder: Folder,
    pub(crate) machine: Machine,
    pub(crate) driver: Driver,
    pub(crate) world: World,
    pub(crate) dial: Arc<Dial>,
    pub(crate) identity: Mutex<Identity>,
    pub(crate) fences: Mutex<Fences>,
    pub(crate) lanes: Mutex<Lanes>,
    /// There is something to begin.
    pub(crate) queued: Notify,
    /// Something ended: a job, or a report was taken.
    pub(crate) settled: Notify,
    pub(crate) outbox: Outbox,
    pub(crate) streams: Streams,
    /// What is being pulled.
    pub(crate) store: Arc<Store>,
    /// Which images were found to be trusted.
    pub(crate) verdicts: Verdicts,
    /// The session, while the server and we agree on one.
    pub(crate) session: watch::Sender<Option<i64>>,
    /// How long one poll lasts, as the server said last.
    pub(crate) poll_seconds: std::sync::atomic::AtomicU64,
    /// When the server last knew the status of every cell.
    pub(crate) observed: Mutex<Option<tokio::time::Instant>>,
    /// Until when tasks alone are asked for, after everything that the node should have was too long for one answer.
    pub(crate) tasks_only_until: Mutex<Option<tokio::time::Instant>>,
    /// When the server last answered, also an agent before this one.
    pub(crate) heard: Mutex<Heard>,
    /// The digest of the hardware that the server was told of.
    pub(crate) told_digest: Mutex<String>,
    pub(crate) phase: watch::Sender<Phase>,
}

impl Running {
    /// How long one poll lasts when nothing comes.
    pub(crate) fn poll_length(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.poll_seconds.load(std::sync::atomic::Ordering::Relaxed))
    }

    pub(crate) fn new(agent: Agent) -> Result<Self, AgentError> {
        let Agent { folder, identity, machine, driver, world, cut, phase } = agent;
        let config = trust::joined(&identity, &world)?;
        driver.leave(false);
        let heard = Heard::remembered(&folder);
        Ok(Self {
            dial: Dial::new(identity.node.server.parse()?, config, world.clone(), cut),
            fences: Mutex::new(Fences::open(&folder)?),
            identity: Mutex::new(identity),
            lanes: Mutex::default(),
            queued: Notify::new(),
            settled: Notify::new(),
            outbox: Outbox::default(),
            streams: Streams::default(),
            store: Arc::new(Store::new(&folder)),
            verdicts: Verdicts::new(&folder),
            session: watch::Sender::new(None),
            poll_seconds: std::sync::atomic::AtomicU64::new(heard.poll().as_secs()),
            observed: Mutex::default(),
            tasks_only_until: Mutex::default(),
            heard: Mutex::new(heard),
            told_digest: Mutex::default(),
            folder,
            machine,
            driver,
            world,
            phase,
        })
    }

    /// Queues a job; false for a task that is here already.
    pub(crate) fn queue(&self, job: Job) -> bool {
        let added = self.lanes.lock().expect("no holder of this lock can panic").add(job);
        self.queued.notify_one();
        added
    }

    /// The server knows a newer session than this, or none.
    pub(crate) fn session_lost(&self, session: i64) {
        self.session.send_if_modified(|current| {
            let lost = *current == Some(session);
            if lost {
                *current = None;
            }
            lost
        });
    }

    /// Waits until there is a session.
    pub(crate) async fn session(&self) -> i64 {
        let mut session = self.session.subscribe();
        loop {
            if let Some(current) = *session.borrow_and_update() {
                return current;
            }
            if session.changed().await.is_err() {
                // The sender is in `self`: it cannot be gone.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until this session is not the current one.
    pub(crate) async fn session_over(&self, session: i64) {
        let mut current = self.session.subscribe();
        if current.wait_for(|current| *current != Some(session)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Nothing runs, and everything was told.
    pub(crate) async fn idle(&self) {
        loop {
            let settled = self.settled.notified();
            let idle = self.lanes.lock().expect("no holder of this lock can panic").is_idle();
            if idle && self.outbox.is_empty() {
                return;
            }
            settled.await;
        }
    }
}

impl Drop for Running {
    /// However it ends, it is away then.
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Away);
        self.driver.leave(true);
    }
}

/// Sorts out the one refusal after which no other attempt makes sense.
pub(crate) fn unless_retired<A>(answer: Result<A, CallError>) -> Result<Result<A, CallError>, AgentError> {
    match answer {
        Err(CallError::Refused { status: 401, detail, .. }) => Err(AgentError::Retired(detail)),
        answer => Ok(answer),
    }
}
