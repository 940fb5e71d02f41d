//! Publishers' keys, and a project's trust policy for artifacts.
//!
//! Every change of either bumps the edition of the project's policy in the same transaction, so that no verdict outlives the
//! keys and rules it was derived from.

use muster_ids::{ProjectId, TenantId};
use muster_model::Record as _;
use muster_model::artifact::{ArtifactState, PublisherKey, TrustPolicy};

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store, StoreError, Tx};

statements! {
    KEY_BY_FINGERPRINT = both("SELECT * FROM publisher_keys WHERE project_id = $1 AND fingerprint = $2");
    KEY_OF_PROJECT = both("SELECT * FROM publisher_keys WHERE project_id = $1 ORDER BY id");
    KEY_COUNT_TRUSTED = both("SELECT COUNT(*) FROM publisher_keys WHERE project_id = $1 AND revoked_at IS NULL");
    KEY_DELETE_OF_PROJECT = both("DELETE FROM publisher_keys WHERE project_id = $1");
    KEY_DELETE_OF_TENANT = both("DELETE FROM publisher_keys WHERE tenant_id = $1");
    TRUST_POLICY_GET = both(
        "SELECT unsigned_up_to, smoke_to_stage, grace_hours, policy, version FROM trust_policies WHERE project_id = $1");
    TRUST_POLICY_MAKE = both(
        "INSERT INTO trust_policies (project_id, unsigned_up_to, smoke_to_stage, grace_hours, policy, version)
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (project_id) DO NOTHING");
    TRUST_POLICY_SET = both(
        "UPDATE trust_policies SET unsigned_up_to = $2, smoke_to_stage = $3, grace_hours = $4, policy = policy + 1,
            version = version + 1
         WHERE project_id = $1 AND version = $5
         RETURNING unsigned_up_to, smoke_to_stage, grace_hours, policy, version");
    // The version stays, so that adding a key does not conflict with a concurrent change of the rules.
    TRUST_POLICY_RAISE = both("UPDATE trust_policies SET policy = policy + 1 WHERE project_id = $1");
    TRUST_POLICY_DELETE_OF_PROJECT = both("DELETE FROM trust_policies WHERE project_id = $1");
    TRUST_POLICY_DELETE_OF_TENANT = both(
        "DELETE FROM trust_policies WHERE project_id IN (SELECT id FROM projects WHERE tenant_id = $1)");
}

fn policy(row: &Row) -> Result<TrustPolicy> {
    let state: String = row.get(0)?;
    Ok(TrustPolicy {
        unsigned_up_to: ArtifactState::parse(&state).ok_or(StoreError::Corrupt("a state of an artifact"))?,
        smoke_to_stage: row.get(1)?,
        grace_hours: row.get(2)?,
        policy: row.get(3)?,
        version: row.get(4)?,
    })
}

impl Store {
    /// Returns a project's key with this fingerprint, revoked or not.
    pub async fn key_by_fingerprint(
        &self,
        project: ProjectId,
        fingerprint: &str,
    ) -> Result<Option<PublisherKey>> {
        let row = self.fetch_optional(&KEY_BY_FINGERPRINT, args![project, fingerprint]).await?;
        row.as_ref().map(PublisherKey::from_row).transpose()
    }

    /// Returns all keys of a project, including revoked ones: a signature by a revoked key differs from one by an unknown
    /// key.
    pub async fn key_of_project(&self, project: ProjectId) -> Result<Vec<PublisherKey>> {
        self.fetch_all(&KEY_OF_PROJECT, args![project]).await?.iter().map(PublisherKey::from_row).collect()
    }

    /// Returns a project's trust policy; `None` if neither the policy nor the keys ever changed.
    pub async fn trust_policy_lookup(&self, project: ProjectId) -> Result<Option<TrustPolicy>> {
        self.fetch_optional(&TRUST_POLICY_GET, args![project]).await?.as_ref().map(policy).transpose()
    }
}

impl Tx {
    /// How many keys a project trusts.
    pub async fn key_count_trusted(&mut self, project: ProjectId) -> Result<i64> {
        let rows = self.fetch_all(&KEY_COUNT_TRUSTED, args![project]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    async fn trust_policy_make(&mut self, project: ProjectId) -> Result<()> {
        let first = TrustPolicy::default();
        let args = args![
            project,
            first.unsigned_up_to.as_str(),
            first.smoke_to_stage,
            first.grace_hours,
            first.policy,
            first.version
        ];
        self.execute(&TRUST_POLICY_MAKE, args).await.map(drop)
    }

    /// Sets the rules; `policy.version` is the version the caller read. Returns the rules under their new edition.
    pub async fn trust_policy_set(&mut self, project: ProjectId, rules: &TrustPolicy) -> Result<TrustPolicy> {
        self.trust_policy_make(project).await?;
        let args = args![
            project,
            rules.unsigned_up_to.as_str(),
            rules.smoke_to_stage,
            rules.grace_hours,
            rules.version
        ];
        let rows = self.fetch_all(&TRUST_POLICY_SET, args).await?;
        policy(rows.first().ok_or(StoreError::Stale)?)
    }

    /// Starts a new edition of a project's policy, because its keys are about to change.
    pub async fn trust_policy_raise(&mut self, project: ProjectId) -> Result<()> {
        self.trust_policy_make(project).await?;
        self.execute_one(&TRUST_POLICY_RAISE, args![project], StoreError::Stale).await
    }

    /// Removes the keys and the rules of a project and returns the number of keys.
    pub async fn key_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&TRUST_POLICY_DELETE_OF_PROJECT, args![project]).await?;
        self.execute(&KEY_DELETE_OF_PROJECT, args![project]).await
    }

    /// Does the same for all projects of a tenant.
    pub async fn key_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&TRUST_POLICY_DELETE_OF_TENANT, args![tenant]).await?;
        self.execute(&KEY_DELETE_OF_TENANT, args![tenant]).await
    }
}
