//! Adapter steps: queued by the engine, leased and finished by adapters.

use jiff::{SignedDuration, Timestamp};
use muster_ids::{AdapterStepId, InstanceId, OperationId, ProjectId, ServiceAccountId};
use muster_model::adapter::{AdapterStep, AdapterStepState, AdapterVerb};
use serde_json::Value as Json;

use crate::sql::{Row, args, both, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, app_id, instance_id, member_id, incarnation, operation_id, key, verb, operator_account_id,
         input, state, generation, holder, leased_until, due_at, attempts, message, percent, reason, adapter_detail,
         correlation_id, created_at, expires_at, finished_at"
    };
}

statements! {
    // Idempotent: a retry of the engine's step finds the existing row.
    ADAPTER_STEP_QUEUE = both(concat!("INSERT INTO adapter_steps (", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, '', NULL, $14, 0, NULL, NULL, NULL, NULL, $15, $14, $16,
                 NULL) ON CONFLICT DO NOTHING"));
    ADAPTER_STEP_GET = both(concat!("SELECT ", columns!(), " FROM adapter_steps WHERE id = $1"));
    ADAPTER_STEP_OF = both(concat!("SELECT ", columns!(), " FROM adapter_steps WHERE operation_id = $1 ORDER BY id"));
    // $1 after, $2 limit, $3 project, $4 instance or null, $5 state or null, $6 operator account or null.
    ADAPTER_STEP_LIST = pair(
        concat!("SELECT ", columns!(), " FROM adapter_steps WHERE id > $1 AND project_id = $3
            AND ($4::uuid IS NULL OR instance_id = $4) AND ($5::text IS NULL OR state = $5)
            AND ($6::uuid IS NULL OR operator_account_id = $6) ORDER BY id LIMIT $2"),
        concat!("SELECT ", columns!(), " FROM adapter_steps WHERE id > $1 AND project_id = $3
            AND ($4 IS NULL OR instance_id = $4) AND ($5 IS NULL OR state = $5)
            AND ($6 IS NULL OR operator_account_id = $6) ORDER BY id LIMIT $2"));
    ADAPTER_STEP_ANY = pair(
        "SELECT id FROM adapter_steps WHERE operator_account_id = $1 AND state IN ('queued', 'leased') AND due_at <= $2
            AND (state = 'queued' OR leased_until < now()) LIMIT 1",
        "SELECT id FROM adapter_steps WHERE operator_account_id = $1 AND state IN ('queued', 'leased') AND due_at <= $2
            AND (state = 'queued' OR leased_until < $2) LIMIT 1");
    // With several replicas, only the database's clock is shared.
    ADAPTER_STEP_LEASE = pair(
        concat!("UPDATE adapter_steps SET state = 'leased', holder = $2, generation = generation + 1, attempts = attempts + 1,
            leased_until = now() + make_interval(secs => $4 / 1000.0)
         WHERE id = ANY (ARRAY(SELECT id FROM adapter_steps WHERE operator_account_id = $1 AND state IN ('queued', 'leased')
                AND due_at <= $3 AND (state = 'queued' OR leased_until < now())
                ORDER BY id LIMIT $5 FOR UPDATE SKIP LOCKED)) RETURNING ", columns!()),
        concat!("UPDATE adapter_steps SET state = 'leased', holder = $2, generation = generation + 1, attempts = attempts + 1,
            leased_until = $3 + $4 * 1000
         WHERE id IN (SELECT id FROM adapter_steps WHERE operator_account_id = $1 AND state IN ('queued', 'leased')
                AND due_at <= $3 AND (state = 'queued' OR leased_until < $3) ORDER BY id LIMIT $5) RETURNING ", columns!()));
    // The fence for every report of an adapter: the leased generation, and a lease that has not expired. A report can only
    // extend the lease.
    ADAPTER_STEP_KEEP = pair(
        concat!("UPDATE adapter_steps SET leased_until = GREATEST(leased_until, now() + make_interval(secs => $4 / 1000.0)),
            message = COALESCE($5, message), percent = COALESCE($6, percent)
         WHERE id = $1 AND generation = $2 AND state = 'leased' AND leased_until >= now() AND $3::timestamptz IS NOT NULL RETURNING ", columns!()),
        concat!("UPDATE adapter_steps SET leased_until = MAX(leased_until, $3 + $4 * 1000), message = COALESCE($5, message),
            percent = COALESCE($6, percent)
         WHERE id = $1 AND generation = $2 AND state = 'leased' AND leased_until >= $3 RETURNING ", columns!()));
    // The same fence for work done under a lease; the row lock keeps others from leasing the step until the transaction
    // ends.
    ADAPTER_STEP_FENCE = pair(
        "SELECT id FROM adapter_steps WHERE id = $1 AND generation = $2 AND state = 'leased' AND leased_until >= now()
            AND $3::timestamptz IS NOT NULL FOR SHARE",
        "SELECT id FROM adapter_steps WHERE id = $1 AND generation = $2 AND state = 'leased' AND leased_until >= $3");
    ADAPTER_STEP_END = pair(
        concat!("UPDATE adapter_steps SET state = $4, leased_until = NULL, message = $5, reason = $6, adapter_detail = $7,
            finished_at = $3::timestamptz
         WHERE id = $1 AND generation = $2 AND state = 'leased' AND leased_until >= now() RETURNING ", columns!()),
        concat!("UPDATE adapter_steps SET state = $4, leased_until = NULL, message = $5, reason = $6, adapter_detail = $7,
            finished_at = $3
         WHERE id = $1 AND generation = $2 AND state = 'leased' AND leased_until >= $3 RETURNING ", columns!()));
    ADAPTER_STEP_LATER = pair(
        concat!("UPDATE adapter_steps SET state = 'queued', leased_until = NULL, holder = '', message = $5, reason = $6, due_at = $4
         WHERE id = $1 AND generation = $2 AND state = 'leased' AND leased_until >= now() AND $3::timestamptz IS NOT NULL RETURNING ", columns!()),
        concat!("UPDATE adapter_steps SET state = 'queued', leased_until = NULL, holder = '', message = $5, reason = $6, due_at = $4
         WHERE id = $1 AND generation = $2 AND state = 'leased' AND leased_until >= $3 RETURNING ", columns!()));
    ADAPTER_STEP_CANCEL_OF = both(
        "UPDATE adapter_steps SET state = 'cancelled', leased_until = NULL, finished_at = $2, generation = generation + 1
         WHERE operation_id = $1 AND state IN ('queued', 'leased') RETURNING attempts");
    // Open steps, and steps that ended since $2.
    ADAPTER_STEP_OF_MEMBERS = both(
        "SELECT id FROM adapter_steps WHERE instance_id = $1 AND verb <> 'reconcile'
            AND (state IN ('queued', 'leased') OR finished_at >= $2) LIMIT 1");
    ADAPTER_STEP_FORGET = both("DELETE FROM adapter_steps WHERE id = $1");
    ADAPTER_STEP_PRUNE = both("DELETE FROM adapter_steps WHERE finished_at IS NOT NULL AND finished_at < $1");
    ADAPTER_STEP_ACCOUNTS_WAITING = both(
        "SELECT DISTINCT operator_account_id FROM adapter_steps WHERE state IN ('queued', 'leased') AND due_at <= $1
            AND (state = 'queued' OR leased_until < $1)");
    // Expired leases are ended before the step is leased again, to distinguish them from steps that an adapter returned.
    ADAPTER_STEP_LAPSE = pair(
        concat!("UPDATE adapter_steps SET state = 'queued', leased_until = NULL
         WHERE id = ANY (ARRAY(SELECT id FROM adapter_steps WHERE operator_account_id = $1
                AND state = 'leased' AND state IN ('queued', 'leased') AND leased_until < now() AND $2::timestamptz IS NOT NULL ORDER BY id LIMIT $3 FOR UPDATE SKIP LOCKED))
         RETURNING ", columns!()),
        concat!("UPDATE adapter_steps SET state = 'queued', leased_until = NULL
         WHERE id IN (SELECT id FROM adapter_steps WHERE operator_account_id = $1
                AND state = 'leased' AND state IN ('queued', 'leased') AND leased_until < $2 ORDER BY id LIMIT $3) RETURNING ", columns!()));
}

fn step(row: &Row) -> Result<AdapterStep> {
    let (verb, state) = (row.get::<String>(9)?, row.get::<String>(12)?);
    Ok(AdapterStep {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        app_id: row.get(3)?,
        instance_id: row.get(4)?,
        member_id: row.get(5)?,
        incarnation: row.get(6)?,
        operation_id: row.get(7)?,
        key: row.get(8)?,
        verb: AdapterVerb::parse(&verb).ok_or(StoreError::Corrupt("a verb of adapters"))?,
        operator_account_id: row.get(10)?,
        input: row.get(11)?,
        state: AdapterStepState::parse(&state).ok_or(StoreError::Corrupt("a state of an adapter step"))?,
        generation: row.get(13)?,
        holder: row.get(14)?,
        leased_until: row.get(15)?,
        due_at: row.get(16)?,
        attempts: row.get(17)?,
        message: row.get(18)?,
        percent: row.get(19)?,
        reason: row.get(20)?,
        adapter_detail: row.get(21)?,
        correlation_id: row.get(22)?,
        created_at: row.get(23)?,
        expires_at: row.get(24)?,
        finished_at: row.get(25)?,
    })
}

fn millis(length: SignedDuration) -> i64 {
    i64::try_from(length.as_millis()).unwrap_or(i64::MAX)
}

/// Filter for lists of adapter steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct AdapterStepFilter {
    /// Only steps of this instance.
    pub instance: Option<InstanceId>,
    /// Only steps in this state.
    pub state: Option<AdapterStepState>,
    /// Only steps for this operator account.
    pub operator: Option<ServiceAccountId>,
}

/// The result that an adapter reports for a step.
#[derive(Debug, Clone, Default)]
pub struct StepEnd {
    /// A description of the work done, or of the failure.
    pub message: Option<String>,
    /// The reason of a failure, in the adapter's terms.
    pub reason: Option<String>,
    /// The adapter's details about the member.
    pub adapter_detail: Option<Json>,
}

impl Store {
    /// Returns the step with this id.
    pub async fn adapter_step_lookup(&self, id: AdapterStepId) -> Result<Option<AdapterStep>> {
        self.fetch_optional(&ADAPTER_STEP_GET, args![id]).await?.as_ref().map(step).transpose()
    }

    /// Returns the adapter steps of an operation, oldest first.
    pub async fn adapter_step_of(&self, operation: OperationId) -> Result<Vec<AdapterStep>> {
        self.fetch_all(&ADAPTER_STEP_OF, args![operation]).await?.iter().map(step).collect()
    }

    /// Returns a project's adapter steps, oldest first.
    pub async fn adapter_step_list(
        &self,
        page: Page,
        project: ProjectId,
        filter: AdapterStepFilter,
    ) -> Result<Vec<AdapterStep>> {
        let state = filter.state.map(AdapterStepState::as_str);
        let args = args![page.after, page.size, project, filter.instance, state, filter.operator];
        self.fetch_all(&ADAPTER_STEP_LIST, args).await?.iter().map(step).collect()
    }

    /// Reports whether an account has a step to lease: a read, so that polling costs no commit.
    pub async fn adapter_step_any(&self, account: ServiceAccountId, now: Timestamp) -> Result<bool> {
        Ok(self.fetch_optional(&ADAPTER_STEP_ANY, args![account, now]).await?.is_some())
    }

    /// Returns the accounts with steps that are due: queued, or with an expired lease.
    pub async fn adapter_step_accounts_waiting(&self, now: Timestamp) -> Result<Vec<ServiceAccountId>> {
        let rows = self.fetch_all(&ADAPTER_STEP_ACCOUNTS_WAITING, args![now]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }
}

impl Tx {
    /// Queues a step; does nothing if it is already queued.
    pub async fn adapter_step_queue(&mut self, step: &AdapterStep) -> Result<()> {
        let args = args![
            step.id,
            step.tenant_id,
            step.project_id,
            step.app_id,
            step.instance_id,
            step.member_id,
            step.incarnation,
            step.operation_id,
            &step.key,
            step.verb.as_str(),
            step.operator_account_id,
            step.input.clone(),
            step.state.as_str(),
            step.created_at,
            &step.correlation_id,
            step.expires_at
        ];
        self.execute(&ADAPTER_STEP_QUEUE, args).await.map(drop)
    }

    /// Ends the expired leases of an account. The steps return to the queue and keep the name of their last holder.
    pub async fn adapter_step_lapse(
        &mut self,
        account: ServiceAccountId,
        now: Timestamp,
        most: i64,
    ) -> Result<Vec<AdapterStep>> {
        self.fetch_all(&ADAPTER_STEP_LAPSE, args![account, now, most]).await?.iter().map(step).collect()
    }

    /// Leases up to `most` steps for an account: queued steps, and steps with an expired lease.
    pub async fn adapter_step_lease(
        &mut self,
        account: ServiceAccountId,
        holder: &str,
        now: Timestamp,
        length: SignedDuration,
        most: i64,
    ) -> Result<Vec<AdapterStep>> {
        let args = args![account, holder, now, millis(length), most];
        let mut leased: Vec<AdapterStep> =
            self.fetch_all(&ADAPTER_STEP_LEASE, args).await?.iter().map(step).collect::<Result<_>>()?;
        leased.sort_by_key(|step| step.id);
        Ok(leased)
    }

    /// Extends a lease and records the step's progress. Returns `Fenced` if the lease expired or has a new holder.
    pub async fn adapter_step_keep(
        &mut self,
        id: AdapterStepId,
        generation: i64,
        now: Timestamp,
        length: SignedDuration,
        message: Option<&str>,
        percent: Option<i64>,
    ) -> Result<AdapterStep> {
        let args = args![id, generation, now, millis(length), message, percent];
        let rows = self.fetch_all(&ADAPTER_STEP_KEEP, args).await?;
        rows.first().map_or(Err(StoreError::Fenced), step)
    }

    /// Verifies that the lease of a step is still held and locks the step until the transaction ends; otherwise returns
    /// `Fenced`.
    pub async fn adapter_step_fence(
        &mut self,
        id: AdapterStepId,
        generation: i64,
        now: Timestamp,
    ) -> Result<()> {
        let held = self.fetch_all(&ADAPTER_STEP_FENCE, args![id, generation, now]).await?;
        if held.is_empty() { Err(StoreError::Fenced) } else { Ok(()) }
    }

    /// Reports whether a step of a member of this instance is open or ended since `since`.
    pub async fn adapter_step_of_members(&mut self, instance: InstanceId, since: Timestamp) -> Result<bool> {
        Ok(!self.fetch_all(&ADAPTER_STEP_OF_MEMBERS, args![instance, since]).await?.is_empty())
    }

    /// Finishes a step, done or failed. Returns `Fenced` if the lease expired or has a new holder.
    pub async fn adapter_step_end(
        &mut self,
        id: AdapterStepId,
        generation: i64,
        state: AdapterStepState,
        end: &StepEnd,
        now: Timestamp,
    ) -> Result<AdapterStep> {
        let args = args![
            id,
            generation,
            now,
            state.as_str(),
            end.message.as_deref(),
            end.reason.as_deref(),
            end.adapter_detail.clone()
        ];
        let rows = self.fetch_all(&ADAPTER_STEP_END, args).await?;
        rows.first().map_or(Err(StoreError::Fenced), step)
    }

    /// Returns a step to the queue, due again at `due`. Returns `Fenced` if the lease expired or has a new holder.
    pub async fn adapter_step_later(
        &mut self,
        id: AdapterStepId,
        generation: i64,
        now: Timestamp,
        due: Timestamp,
        end: &StepEnd,
    ) -> Result<AdapterStep> {
        let args = args![id, generation, now, due, end.message.as_deref(), end.reason.as_deref()];
        let rows = self.fetch_all(&ADAPTER_STEP_LATER, args).await?;
        rows.first().map_or(Err(StoreError::Fenced), step)
    }

    /// Cancels the open steps of an operation and fences their holders. Reports whether an adapter ever leased one of them.
    pub async fn adapter_step_cancel_of(&mut self, operation: OperationId, now: Timestamp) -> Result<bool> {
        let rows = self.fetch_all(&ADAPTER_STEP_CANCEL_OF, args![operation, now]).await?;
        let attempts: Vec<i64> = rows.iter().map(|row| row.get(0)).collect::<Result<_>>()?;
        Ok(attempts.into_iter().any(|attempts| attempts > 0))
    }

    /// Deletes a scheduled reconcile step that is finished.
    pub async fn adapter_step_forget(&mut self, id: AdapterStepId) -> Result<()> {
        self.execute(&ADAPTER_STEP_FORGET, args![id]).await.map(drop)
    }

    /// Deletes steps that ended before `until`.
    pub async fn adapter_step_prune(&mut self, until: Timestamp) -> Result<u64> {
        self.execute(&ADAPTER_STEP_PRUNE, args![until]).await
    }
}
