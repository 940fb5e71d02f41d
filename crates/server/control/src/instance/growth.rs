//! New members of a launch, scale or add: whether they could ever be provisioned, and their part of the plan.

use muster_api::Code;
use muster_api::operation::{Plan, PlannedMembers, PlannedPull};
use muster_engine::member::{amounts, definitions_for};
use muster_ids::{AppVersionId, ProjectId};
use muster_manifest::{Capacity, Component, RootFrom, Verb};

use crate::capacity::{PlannedAllocations, ensure_possible, foresee, total};
use crate::{Cx, Error, Result};

/// Conservative estimate of the bytes per second that a node pulls and unpacks.
const PULLED_A_SECOND: i64 = 50_000_000;

/// New members of one component.
pub(crate) struct Growth<'g> {
    pub(crate) component: &'g Component,
    pub(crate) count: i64,
    pub(crate) each: Capacity,
    /// Whether each gets an allocation of its own; otherwise they share one of the project.
    pub(crate) makes_room: bool,
    /// JSON pointer to the capacity in the request, if given.
    pub(crate) pointer: Option<String>,
}

fn planned<'g>(growth: &'g [Growth<'g>], exclusive: bool) -> Vec<PlannedAllocations<'g>> {
    let made = growth.iter().filter(|group| group.makes_room && group.count > 0);
    made.map(|group| PlannedAllocations {
        component: &group.component.key,
        count: group.count,
        each: amounts(group.each),
        exclusive,
    })
    .collect()
}

/// Ensures that nodes and quota could satisfy all of it. If the same command also frees resources, the quota is checked by
/// each member's own claim.
pub(crate) async fn ensure_can_grow(
    cx: &Cx,
    project: ProjectId,
    growth: &[Growth<'_>],
    gives_back: bool,
) -> Result<()> {
    for group in growth.iter().filter(|group| group.makes_room && group.count > 0) {
        ensure_possible(cx, &amounts(group.each), |resource, why| match &group.pointer {
            Some(pointer) => Error::field(format!("{pointer}/{}", resource.field()), why),
            None => Error::new(Code::Incompatible, format!("{}: {why}", group.component.key)),
        })
        .await?;
    }
    let (count, sum) = total(&planned(growth, false));
    if count == 0 || gives_back {
        return Ok(());
    }
    let quota = cx.platform.store.quota_lookup(project).await?;
    match quota.excess(count, &sum) {
        Some(excess) => Err(Error::new(Code::QuotaExceeded, excess)),
        None => Ok(()),
    }
}

/// Adds the new members to a plan: their number, the expected duration and, in a dry run, whether they fit now and the
/// images to pull. `existing` are the resources it affects that already exist: new ones have no ids yet.
pub(crate) async fn plan_growth(
    cx: &Cx,
    project: ProjectId,
    release: AppVersionId,
    exclusive: bool,
    growth: &[Growth<'_>],
    dry_run: Option<Vec<String>>,
    plan: &mut Plan,
) -> Result<()> {
    let grown: Vec<&Growth<'_>> = growth.iter().filter(|group| group.count > 0).collect();
    plan.adds = grown
        .iter()
        .map(|group| PlannedMembers { component_key: group.component.key.clone(), count: group.count })
        .collect();
    let mut waves: Vec<u32> = grown.iter().map(|group| group.component.update_order).collect();
    waves.sort_unstable();
    waves.dedup();
    let (add, _) = definitions_for(Verb::Add);
    if plan.kind != add.kind.as_str() {
        plan.expected_seconds += seconds(waves.len().saturating_mul(add.steps.len()));
    }
    let Some(existing) = dry_run else { return Ok(()) };
    plan.locks = existing;
    let made = planned(growth, exclusive);
    if !made.is_empty() {
        foresee(cx, project, &made, plan).await?;
    }
    plan.pulls = pulls(cx, release, &grown).await?;
    let bytes: i64 = plan.pulls.iter().map(|pull| pull.size).sum();
    plan.expected_seconds += u32::try_from(bytes / PULLED_A_SECOND).unwrap_or(u32::MAX);
    Ok(())
}

fn seconds(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the images of new members that no cell uses yet.
async fn pulls(cx: &Cx, release: AppVersionId, grown: &[&Growth<'_>]) -> Result<Vec<PlannedPull>> {
    let store = &cx.platform.store;
    let mut pulls: Vec<PlannedPull> = Vec::new();
    for (name, id) in store.app_version_artifacts(release).await? {
        let is_root = |group: &&Growth<'_>| group.component.runtime.root == RootFrom::Artifact(name.clone());
        if !grown.iter().any(is_root) || !store.artifact_cells(id).await?.is_empty() {
            continue;
        }
        if let Some(artifact) = store.artifact_lookup(id).await? {
            let image = format!("{}@{}", artifact.repository, artifact.digest);
            pulls.push(PlannedPull { image, size: artifact.size });
        }
    }
    Ok(pulls)
}
