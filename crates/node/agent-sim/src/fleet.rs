//! Many nodes in one process, each a real agent with a simulated driver.

use std::sync::Arc;
use std::time::Duration;

use muster_agent::{Agent, AgentError, Folder, Identity, Machine, Phase, run};
use muster_ids::{CellId, Env};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::driver::{Driver, Surroundings};
use crate::faults::{Faults, Odds};
use crate::journal::Journal;
use crate::kill::KillPoints;

/// A node of the fleet. It has joined: its folder contains its identity.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: Folder,
    /// Inventory it reports.
    pub machine: Machine,
}

/// A fleet.
pub struct Fleet {
    nodes: Vec<Node>,
    env: Env,
    journal: Option<Arc<Journal>>,
    kill: Arc<KillPoints>,
    odds: Odds,
    seed: u64,
    stop: watch::Sender<bool>,
}

struct Node {
    member: Member,
    faults: Arc<Faults>,
    cut: watch::Sender<bool>,
    phase: watch::Sender<Phase>,
    driver: Option<Arc<Driver>>,
    running: Option<JoinHandle<()>>,
}

impl Fleet {
    /// Returns an empty fleet.
    pub fn new(
        env: Env,
        journal: Option<Arc<Journal>>,
        kill: Arc<KillPoints>,
        odds: Odds,
        seed: u64,
    ) -> Self {
        Self { nodes: Vec::new(), env, journal, kill, odds, seed, stop: watch::Sender::new(false) }
    }

    /// Adds a node and starts it.
    pub fn add(&mut self, member: Member) -> Result<(), AgentError> {
        self.nodes.push(Node {
            faults: Arc::new(Faults::new(self.odds.clone(), self.seed, &member.name)),
            cut: watch::Sender::new(false),
            phase: watch::Sender::new(Phase::Away),
            driver: None,
            running: None,
            member,
        });
        self.revive(self.nodes.len() - 1)
    }

    /// Returns the number of nodes that poll for work.
    pub fn polling(&self) -> usize {
        self.nodes.iter().filter(|node| *node.phase.borrow() == Phase::Polling).count()
    }

    /// Waits until every running node polls for work.
    pub async fn ready(&self) {
        let alive = |node: &&Node| node.running.as_ref().is_some_and(|running| !running.is_finished());
        while self.polling() < self.nodes.iter().filter(alive).count() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Returns the name of a node.
    pub fn name(&self, at: usize) -> &str {
        &self.nodes[at].member.name
    }

    /// Resolves a selector: all (`*`), a fraction (`50%`, drawn from the seed), one by name, or one by number from 0.
    pub fn choose(&self, who: &str) -> Result<Vec<usize>, String> {
        if who == "*" {
            return Ok((0..self.nodes.len()).collect());
        }
        if let Some(part) = who.strip_suffix('%').and_then(|part| part.parse::<usize>().ok()) {
            let wanted = (self.nodes.len() * part.min(100)).div_ceil(100);
            let mut drawn: Vec<(f64, usize)> = Vec::new();
            for (at, node) in self.nodes.iter().enumerate() {
                drawn.push((node.faults.draw(), at));
            }
            drawn.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut chosen: Vec<usize> = drawn.into_iter().take(wanted).map(|(_, at)| at).collect();
            chosen.sort_unstable();
            return Ok(chosen);
        }
        let named = self.nodes.iter().position(|node| node.member.name == who);
        let numbered = || who.parse().ok().filter(|at| *at < self.nodes.len());
        named.or_else(numbered).map(|at| vec![at]).ok_or_else(|| format!("there is no node {who}"))
    }

    /// Ends a node's agent at once, as if its process was killed. Nothing of it runs when this returns.
    pub async fn die(&mut self, at: usize) {
        if let Some(running) = self.nodes[at].running.take() {
            running.abort();
            // The error of the abort is expected.
            let _ = running.await;
        }
    }

    /// Starts a node's agent unless it is running. Its only state is its folder.
    pub fn revive(&mut self, at: usize) -> Result<(), AgentError> {
        let node = &mut self.nodes[at];
        if node.running.as_ref().is_some_and(|running| !running.is_finished()) {
            return Ok(());
        }
        let Member { name, folder, machine } = node.member.clone();
        let identity = Identity::lookup(&folder)?
            .ok_or_else(|| AgentError::file(folder.path(), "the machine has not joined"))?;
        let around = Surroundings {
            journal: self.journal.clone(),
            faults: node.faults.clone(),
            kill: self.kill.clone(),
        };
        let driver = Arc::new(Driver::open(&name, &folder, &self.env, around)?);
        node.driver = Some(driver.clone());
        let agent = Agent {
            driver,
            folder,
            identity,
            machine,
            env: self.env.clone(),
            cut: node.cut.subscribe(),
            phase: node.phase.clone(),
        };
        let stop = self.stop.subscribe();
        node.running = Some(tokio::spawn(async move {
            if let Err(error) = run(agent, stop).await {
                tracing::error!(node = name, %error, "a node's agent ended");
            }
        }));
        Ok(())
    }

    /// Reboots a node's machine: its agent and everything in its cells end, and the agent starts again.
    pub async fn reboot(&mut self, at: usize) -> Result<(), AgentError> {
        self.die(at).await;
        if let Some(driver) = &self.nodes[at].driver {
            driver.reboot()?;
        }
        self.revive(at)
    }

    /// Partitions a node, or reconnects it.
    pub fn partition(&self, at: usize, cut: bool) {
        self.nodes[at].cut.send_replace(cut);
    }

    /// Changes the failure rate of a node's tasks.
    pub fn set_fail(&self, at: usize, part: f64) {
        self.nodes[at].faults.set_fail(part);
    }

    /// Changes whether a node can read the status of its cells.
    pub fn set_unobservable(&self, at: usize, unobservable: bool) {
        self.nodes[at].faults.set_unobservable(unobservable);
    }

    /// Has the services of a cell on a node end by themselves, all of them or the one that is named. Says whether one did.
    pub fn end_services(&self, at: usize, cell: CellId, service: Option<&str>) -> Result<bool, AgentError> {
        self.nodes[at].driver.as_ref().map_or(Ok(false), |driver| driver.end_services(cell, service))
    }

    /// Ends the first process of a cell on a node. Returns whether it did.
    pub fn kill_cell(&self, at: usize, cell: CellId) -> Result<bool, AgentError> {
        self.nodes[at].driver.as_ref().map_or(Ok(false), |driver| driver.kill_cell(cell))
    }

    /// Like `end_services`, and their supervisor restarts them at once.
    pub fn crash_services(&self, at: usize, cell: CellId, service: Option<&str>) -> Result<bool, AgentError> {
        self.nodes[at].driver.as_ref().map_or(Ok(false), |driver| driver.crash_services(cell, service))
    }

    /// Stops every node gracefully: running work is finished and reported.
    pub async fn stop(&mut self) {
        self.stop.send_replace(true);
        for node in &mut self.nodes {
            if let Some(running) = node.running.take() {
                let _ = running.await;
            }
        }
    }
}
