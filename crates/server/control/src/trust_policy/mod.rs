//! Trust policies: a project's requirements for artifacts.

mod get;
mod set;

pub use get::get;
pub use set::set;

use muster_api::key as api;
use muster_ids::ProjectId;
use muster_model::artifact::TrustPolicy;

use crate::{Cx, Result};

/// Returns a project's policy, or the default if it has no row yet.
async fn found(cx: &Cx, project: ProjectId) -> Result<TrustPolicy> {
    let policy = cx.platform.store.trust_policy_lookup(project).await?;
    Ok(policy.unwrap_or_default())
}

fn view(project_id: ProjectId, policy: &TrustPolicy) -> api::TrustPolicy {
    api::TrustPolicy {
        project_id,
        unsigned_up_to: policy.unsigned_up_to,
        smoke_to_stage: policy.smoke_to_stage,
        grace_hours: policy.grace_hours,
        policy: policy.policy,
        version: policy.version,
    }
}
