//! A running node: the state shared by its loops, each in a file of its own: poll, work, report, renew, look.

use std::path::PathBuf;
use std::sync::Arc;

use muster_ids::Env;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::AgentError;
use crate::dial::Dial;
use crate::driver::Driver;
use crate::fence::Fences;
use crate::folder::Folder;
use crate::host_path::HostPaths;
use crate::identity::Identity;
use crate::lanes::{Job, Lanes};
use crate::link::CallError;
use crate::machine::Machine;
use crate::outbox::Outbox;
use crate::provide::{Store, Verdicts};
use crate::self_fencing::LastContact;
use crate::stream::Streams;
use crate::trust;

/// Connection phase of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No session with the server.
    Away,
    /// Polling for work, without stale copies.
    Polling,
}

/// Parameters of an agent.
#[derive(Debug)]
pub struct Agent {
    /// Folder of its persistent state.
    pub folder: Folder,
    /// Identity.
    pub identity: Identity,
    /// Source of its inventory.
    pub machine: Machine,
    /// Driver of its sandboxes.
    pub driver: Arc<dyn Driver>,
    /// Time and randomness.
    pub env: Env,
    /// While true, all traffic to and from the server is blocked.
    pub cut: watch::Receiver<bool>,
    /// Publishes the phase.
    pub phase: watch::Sender<Phase>,
}

/// State shared by the loops of a running node.
pub(crate) struct Running {
    pub(crate) folder: Folder,
    pub(crate) machine: Machine,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) env: Env,
    pub(crate) dial: Arc<Dial>,
    pub(crate) identity: Mutex<Identity>,
    pub(crate) fences: Mutex<Fences>,
    pub(crate) lanes: Mutex<Lanes>,
    /// Notifies that a job was queued.
    pub(crate) queued: Notify,
    /// Notifies that a job ended or a report was accepted.
    pub(crate) settled: Notify,
    pub(crate) outbox: Outbox,
    pub(crate) streams: Streams,
    /// Pulls in progress.
    pub(crate) store: Arc<Store>,
    /// Cached trust verdicts of images.
    pub(crate) verdicts: Verdicts,
    /// Current session with the server, if any.
    pub(crate) session: watch::Sender<Option<i64>>,
    /// Poll duration last set by the server.
    pub(crate) poll_seconds: std::sync::atomic::AtomicU64,
    /// Time at which the server last had the status of every cell.
    pub(crate) observed: Mutex<Option<tokio::time::Instant>>,
    /// End of the period in which only tasks are requested, after the desired state exceeded the response limit.
    pub(crate) tasks_only_until: Mutex<Option<tokio::time::Instant>>,
    /// Last response of the server, including those to an earlier agent process.
    pub(crate) heard: Mutex<LastContact>,
    /// Paths that no message for tenants may contain.
    pub(crate) host_paths: HostPaths,
    /// Digest of the hardware last reported to the server.
    pub(crate) told_digest: Mutex<String>,
    pub(crate) phase: watch::Sender<Phase>,
}

impl Running {
    /// Returns the duration of one poll without work.
    pub(crate) fn poll_length(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.poll_seconds.load(std::sync::atomic::Ordering::Relaxed))
    }

    pub(crate) fn new(agent: Agent) -> Result<Self, AgentError> {
        let Agent { folder, identity, machine, driver, env, cut, phase } = agent;
        let config = trust::joined(&identity, &env)?;
        driver.leave(false);
        let heard = LastContact::remembered(&folder);
        let folders = driver.folders();
        let host_paths = HostPaths::new(folders.iter().map(PathBuf::as_path).chain([folder.path()]));
        Ok(Self {
            dial: Dial::new(identity.node.server.parse()?, config, env.clone(), cut),
            fences: Mutex::new(Fences::open(&folder)?),
            identity: Mutex::new(identity),
            lanes: Mutex::new(Lanes::new(driver.checked_at_once())),
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
            host_paths,
            told_digest: Mutex::default(),
            folder,
            machine,
            driver,
            env,
            phase,
        })
    }

    /// Queues a job; false for a task that is already held.
    pub(crate) fn queue(&self, job: Job) -> bool {
        let added = self.lanes.lock().add(job);
        self.queued.notify_one();
        added
    }

    /// Ends this session: the server has a newer one, or none.
    pub(crate) fn session_lost(&self, session: i64) {
        self.session.send_if_modified(|current| {
            let lost = *current == Some(session);
            if lost {
                *current = None;
            }
            lost
        });
    }

    /// Waits for a session.
    pub(crate) async fn session(&self) -> i64 {
        let mut session = self.session.subscribe();
        loop {
            if let Some(current) = *session.borrow_and_update() {
                return current;
            }
            if session.changed().await.is_err() {
                // `self` holds the sender, so it cannot be dropped.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Waits until this session is no longer current.
    pub(crate) async fn session_over(&self, session: i64) {
        let mut current = self.session.subscribe();
        if current.wait_for(|current| *current != Some(session)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until no job is running and every report was accepted.
    pub(crate) async fn idle(&self) {
        loop {
            let settled = self.settled.notified();
            let idle = self.lanes.lock().is_idle();
            if idle && self.outbox.is_empty() {
                return;
            }
            settled.await;
        }
    }
}

impl Drop for Running {
    /// Resets the phase, however the agent ends.
    fn drop(&mut self) {
        self.phase.send_replace(Phase::Away);
        self.driver.leave(true);
    }
}

/// Separates the one refusal after which a retry is pointless.
pub(crate) fn unless_retired<A>(answer: Result<A, CallError>) -> Result<Result<A, CallError>, AgentError> {
    match answer {
        Err(CallError::Refused { status: 401, detail, .. }) => Err(AgentError::Retired(detail)),
        answer => Ok(answer),
    }
}
