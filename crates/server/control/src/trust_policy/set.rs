//! Change a project's trust policy.
use muster_api::key::TrustPolicySet;
use muster_authz::Permission;
use muster_model::artifact::TrustPolicy;
use muster_model::event::EventType;
use serde_json::json;

use super::{found, view};
use crate::commit::{changed, target};
use crate::{Answer, Cx, Error, PreparedCommand, Result};

/// Prepares `trust_policy_set`.
pub async fn set(cx: &Cx, project: &str, body: TrustPolicySet) -> Result<PreparedCommand> {
    let project = cx.project(project).await?;
    cx.authorize(Permission::TrustPolicySet, project.scope(), "project")?;
    let seen = found(cx, project.id).await?;
    cx.expect_version(seen.version)?;
    let rules = applied(seen, &body)?;
    let told = changed(
        &view(project.id, &seen),
        &[
            ("unsigned_up_to", body.unsigned_up_to.map(|state| json!(state))),
            ("smoke_to_stage", body.smoke_to_stage.map(|needed| json!(needed))),
            ("grace_hours", body.grace_hours.map(|hours| json!(hours))),
        ],
    );
    let subject = format!("/v1/projects/{}/trust-policy", project.id);
    let id = project.id;
    let commit =
        PreparedCommand::new(project.scope(), target("trust_policy", id, &project.name), move |tx| {
            Box::pin(async move {
                let policy = tx.trust_policy_set(id, &rules).await?;
                Ok(Answer::new(&view(id, &policy)))
            })
        });
    Ok(commit.event(cx, EventType::TrustPolicyChanged, subject, told))
}

/// Returns the policy with the given rules applied.
fn applied(mut rules: TrustPolicy, body: &TrustPolicySet) -> Result<TrustPolicy> {
    if let Some(state) = body.unsigned_up_to {
        // Nothing new starts from these states, signed or not, so a signature requirement would have no effect.
        if !state.may_start() {
            return Err(Error::field("/unsigned_up_to", "it must be draft, staged, canary or active"));
        }
        rules.unsigned_up_to = state;
    }
    rules.smoke_to_stage = body.smoke_to_stage.unwrap_or(rules.smoke_to_stage);
    rules.grace_hours = body.grace_hours.unwrap_or(rules.grace_hours);
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use muster_model::artifact::ArtifactState;

    use super::*;

    #[test]
    fn omitted_policy_fields_keep_their_values() {
        let first = TrustPolicy::default();
        assert_eq!(applied(first, &TrustPolicySet::default()).unwrap(), first);
        let body = TrustPolicySet { grace_hours: Some(0), ..TrustPolicySet::default() };
        assert_eq!(applied(first, &body).unwrap(), TrustPolicy { grace_hours: 0, ..first });
        let body = TrustPolicySet { unsigned_up_to: Some(ArtifactState::Draft), ..TrustPolicySet::default() };
        assert_eq!(applied(first, &body).unwrap().unsigned_up_to, ArtifactState::Draft);
        for state in [ArtifactState::Deprecated, ArtifactState::Retired] {
            let body = TrustPolicySet { unsigned_up_to: Some(state), ..TrustPolicySet::default() };
            assert_eq!(applied(first, &body).unwrap_err().fields[0].pointer, "/unsigned_up_to");
        }
    }
}
