//! Decides again whether a member's cell may be made from its artifact, just before that happens: a key may have been
//! revoked since the command was accepted, and the platform's own repairs pass no command pipeline.
//!
//! The engine verifies no signatures. It compares the latest stored verdict with the current keys and refuses on a mismatch;
//! the node verifies the signatures again in any case.

use muster_db::{Result, StoreError};
use muster_ids::ArtifactId;
use muster_model::artifact::{Artifact, ArtifactState, PublisherKey, Trust, TrustPolicy};

use crate::definition::StepCx;

/// Explains why no cell may start from an artifact now, if so.
pub(super) async fn refusal_of(cx: &StepCx<'_>, id: ArtifactId) -> Result<Option<String>> {
    let artifact = cx.store.artifact_lookup(id).await?.ok_or(StoreError::Gone("artifact".to_owned()))?;
    let policy = cx.store.trust_policy_lookup(artifact.project_id).await?.unwrap_or_default();
    let keys = cx.store.key_of_project(artifact.project_id).await?;
    Ok(refusal(&artifact, &policy, &keys))
}

fn refusal(artifact: &Artifact, policy: &TrustPolicy, keys: &[PublisherKey]) -> Option<String> {
    if artifact.state == ArtifactState::Retired {
        return Some(format!(
            "the artifact {} is retired, and no cell can be created from it",
            artifact.digest
        ));
    }
    let unsigned = || {
        let why =
            format!("the artifact {} is {}, and has no valid signature", artifact.digest, artifact.state);
        (!policy.lets_unsigned(artifact.state)).then_some(why)
    };
    let Some(verdict) = &artifact.verdict else { return unsigned() };
    match verdict.trust {
        Trust::Trusted => {
            let counts = |key: &PublisherKey| Some(key.id) == verdict.key_id && key.revoked_at.is_none();
            (!keys.iter().any(counts)).then(|| {
                format!(
                    "the key that signed the artifact {} was revoked: sign it with another key and run \
                     `muster artifact verify`",
                    artifact.digest
                )
            })
        }
        Trust::Unsigned => unsigned(),
        // An invalid signature is worse than none; under other keys and policies it may be valid.
        Trust::Untrusted => {
            Some(format!("the artifact {} is untrusted: {}", artifact.digest, verdict.message))
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use muster_ids::Env;
    use muster_model::artifact::{ArtifactKind, Verdict};

    use super::*;

    fn artifact(env: &Env, state: ArtifactState) -> Artifact {
        Artifact {
            id: env.id(),
            tenant_id: env.id(),
            project_id: env.id(),
            repository_id: env.id(),
            repository: "base".to_owned(),
            digest: "sha256:a".to_owned(),
            kind: ArtifactKind::Oci,
            media_type: String::new(),
            size: 1,
            line: "main".to_owned(),
            state,
            canary_percent: None,
            verdict: None,
            policy: None,
            smoke_witness_id: None,
            superseded_by: None,
            deprecated_at: None,
            labels: Default::default(),
            created_at: Timestamp::UNIX_EPOCH,
            updated_at: Timestamp::UNIX_EPOCH,
            version: 1,
        }
    }

    fn judged(artifact: &Artifact, trust: Trust, key: Option<&PublisherKey>, policy: i64) -> Artifact {
        let verdict = Verdict {
            trust,
            reason: None,
            message: "a test".to_owned(),
            key_id: key.map(|key| key.id),
            signature: None,
            checked_at: Timestamp::UNIX_EPOCH,
        };
        Artifact { verdict: Some(verdict), policy: Some(policy), ..artifact.clone() }
    }

    #[test]
    fn artifact_of_a_revoked_key_is_refused_and_of_another_accepted() {
        let env = Env::for_tests(1);
        let (policy, active) =
            (TrustPolicy { policy: 2, ..TrustPolicy::default() }, artifact(&env, ArtifactState::Active));
        let key = |revoked_at| PublisherKey {
            id: env.id(),
            tenant_id: active.tenant_id,
            project_id: active.project_id,
            name: "key".to_owned(),
            public_key: String::new(),
            fingerprint: String::new(),
            algorithm: String::new(),
            revoked_at,
            revoked_reason: None,
            created_at: Timestamp::UNIX_EPOCH,
            version: 1,
        };
        let (good, revoked) = (key(None), key(Some(Timestamp::UNIX_EPOCH)));
        let keys = [good.clone(), revoked.clone()];
        let refused = |artifact: &Artifact| refusal(artifact, &policy, &keys).is_some();
        assert!(!refused(&judged(&active, Trust::Trusted, Some(&good), 1)));
        assert!(refused(&judged(&active, Trust::Trusted, Some(&revoked), 1)));
        assert!(refused(&judged(&active, Trust::Trusted, None, 1)), "a key that is gone");
        assert!(!refused(&judged(&active, Trust::Trusted, Some(&good), 2)));
        assert!(refused(&judged(&active, Trust::Trusted, Some(&revoked), 2)), "whatever the edition says");
        assert!(refused(&judged(&active, Trust::Untrusted, None, 2)));
    }

    #[test]
    fn unsigned_artifact_starts_only_where_the_policy_allows() {
        let env = Env::for_tests(1);
        let strict = TrustPolicy::default();
        let open = TrustPolicy { unsigned_up_to: ArtifactState::Active, ..TrustPolicy::default() };
        for (state, policy, expected) in [
            (ArtifactState::Draft, &strict, false),
            (ArtifactState::Staged, &strict, false),
            (ArtifactState::Active, &strict, true),
            (ArtifactState::Active, &open, false),
            (ArtifactState::Deprecated, &open, false),
            (ArtifactState::Retired, &open, true),
        ] {
            let unknown = artifact(&env, state);
            let unsigned = judged(&unknown, Trust::Unsigned, None, 1);
            for artifact in [unknown, unsigned] {
                assert_eq!(
                    refusal(&artifact, policy, &[]).is_some(),
                    expected,
                    "{state} {:?}",
                    policy.unsigned_up_to
                );
            }
        }
    }
}
