//! A simulated adapter: it runs steps against files in the cells of the simulated nodes, and lies, fails, dies and repeats
//! itself on request.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use muster_db::{StepEnd, Store, StoreError};
use muster_ids::ServiceAccountId;
use muster_model::adapter::{AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::instance::InstanceState;
use muster_model::member::{Member, MemberState};

use crate::node::{Node, STATE};

/// The adapter.
pub(crate) struct Adapter {
    account: ServiceAccountId,
    /// Verbs that it reports as done without doing them.
    pub(crate) lies: BTreeSet<AdapterVerb>,
    /// Verbs that fail, for members with this in their name.
    pub(crate) fails: Vec<(AdapterVerb, String)>,
    /// It never polls for work.
    pub(crate) silent: bool,
    /// It dies after the next step of this verb, before it can report.
    pub(crate) dies_after: Option<AdapterVerb>,
    /// It runs and reports everything twice.
    pub(crate) repeats: bool,
    /// Reports that were rejected because it no longer held the step.
    pub(crate) refused: usize,
    /// All steps that it ran, in order: verb, member, and lease generation.
    pub(crate) did: Vec<(AdapterVerb, String, i64)>,
    /// Steps that it held when it died.
    pub(crate) died_with: Vec<AdapterStep>,
}

impl Adapter {
    pub(crate) fn new(account: ServiceAccountId) -> Self {
        Self {
            account,
            lies: BTreeSet::new(),
            fails: Vec::new(),
            silent: false,
            dies_after: None,
            repeats: false,
            refused: 0,
            did: Vec::new(),
            died_with: Vec::new(),
        }
    }

    /// A new process of the same adapter, without the configured faults.
    pub(crate) fn begin_anew(&mut self) {
        *self = Self::new(self.account);
    }

    /// Makes a verb fail for every member.
    pub(crate) fn cannot(&mut self, verb: AdapterVerb) {
        self.fails.push((verb, String::new()));
    }

    /// Leases steps, runs and ends them; returns how many it leased.
    pub(crate) async fn serve(&mut self, store: &Store, nodes: &mut [&mut Node], now: Timestamp) -> usize {
        if self.silent || !store.adapter_step_any(self.account, now).await.unwrap() {
            return 0;
        }
        // A dying adapter has a short lease, so that the next one need not wait.
        let length = SignedDuration::from_millis(if self.dies_after.is_some() { 50 } else { 30_000 });
        let mut tx = store.begin().await.unwrap();
        let steps = tx.adapter_step_lease(self.account, "simulated", now, length, 16).await.unwrap();
        tx.commit().await.unwrap();
        for step in &steps {
            let member = store.member_lookup(step.member_id.unwrap()).await.unwrap().unwrap();
            assert_eq!(member.incarnation, step.incarnation, "it is asked about another incarnation");
            in_order(store, &member, step.verb).await;
            let cannot = self.fails.iter().any(|(verb, of)| *verb == step.verb && member.name.contains(of));
            let mut state = if cannot { AdapterStepState::Failed } else { AdapterStepState::Done };
            if !cannot && !self.lies.contains(&step.verb) {
                for _ in 0..=usize::from(self.repeats) {
                    if !carry_out(store, nodes, &member, step.verb).await {
                        state = AdapterStepState::Failed;
                    }
                }
            }
            self.did.push((step.verb, member.name.clone(), step.generation));
            if self.dies_after == Some(step.verb) {
                self.dies_after = None;
                self.died_with.push(step.clone());
                return steps.len();
            }
            for _ in 0..=usize::from(self.repeats) {
                self.end(store, step, state, now).await;
            }
        }
        steps.len()
    }

    /// Reports the end of a step.
    pub(crate) async fn end(
        &mut self,
        store: &Store,
        step: &AdapterStep,
        state: AdapterStepState,
        now: Timestamp,
    ) {
        let failed = state == AdapterStepState::Failed;
        let end = StepEnd {
            message: Some(if failed { "it cannot" } else { "so it is" }.to_owned()),
            reason: failed.then(|| "refuses".to_owned()),
            adapter_detail: None,
        };
        let mut tx = store.begin().await.unwrap();
        match tx.adapter_step_end(step.id, step.generation, state, &end, now).await {
            Ok(_) => {
                tx.operation_wake(step.operation_id.unwrap(), now).await.unwrap();
                tx.commit().await.unwrap();
            }
            Err(StoreError::Fenced) => {
                tx.rollback().await;
                self.refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Asserts that no member joins a starting instance before its dependencies are active.
async fn in_order(store: &Store, member: &Member, verb: AdapterVerb) {
    let instance = store.instance_lookup(member.instance_id).await.unwrap().unwrap();
    if verb != AdapterVerb::Join || member.component_key == "hub" || instance.state != InstanceState::Starting
    {
        return;
    }
    let living = store.member_living(instance.id).await.unwrap();
    let works = |other: &Member| other.component_key == "hub" && other.state == MemberState::Active;
    assert!(living.iter().any(works), "{} is taken in before its hub works", member.name);
}

/// Effect of each verb: the hub is up or drained by files in its own cell, a unit by the hub's file about it.
async fn carry_out(store: &Store, nodes: &mut [&mut Node], member: &Member, verb: AdapterVerb) -> bool {
    let living = store.member_living(member.instance_id).await.unwrap();
    let hub = living.iter().find(|other| {
        other.component_key == "hub" && !matches!(other.state, MemberState::Removing | MemberState::Failed)
    });
    let (at, path) = match member.component_key.as_str() {
        "hub" => (Some(member), "/ready".to_owned()),
        _ => (hub, format!("{STATE}{}", member.name)),
    };
    let Some(cell) = at.and_then(|at| at.cell_id) else { return verb != AdapterVerb::Join };
    let Some(node) = nodes.iter_mut().find(|node| node.cells.contains_key(&cell)) else {
        return verb != AdapterVerb::Join;
    };
    // Nothing can be run in a dead cell.
    if !node.runs(cell) {
        return false;
    }
    let files = node.files.entry(cell).or_default();
    let own = member.component_key == "hub";
    match verb {
        AdapterVerb::Join | AdapterVerb::Resume => {
            files.insert(path, if own { "up" } else { "active" }.to_owned());
        }
        AdapterVerb::Drain => {
            files.insert(path, "drained".to_owned());
        }
        // Only the units depend on the hub, and they are removed by then.
        AdapterVerb::Leave | AdapterVerb::Remove if own => {}
        AdapterVerb::Leave | AdapterVerb::Remove => {
            files.remove(&path);
        }
        AdapterVerb::Reconcile => {}
    }
    true
}
