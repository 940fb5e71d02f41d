//! Instances and their components.

use jiff::Timestamp;
use muster_ids::{AllocationId, InstanceId, ProjectId, ServiceAccountId};
use muster_model::LabelSelector;
use muster_model::instance::{Component, Health, Instance, InstanceFailure, InstanceState, RepairMode};
use muster_model::node::Capacity;
use serde_json::Value as Json;

use crate::operation::{json, to_json};
use crate::sql::{Row, args, both, labels_match, pair, statements};
use crate::{Page, Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, app_id, (SELECT slug FROM apps WHERE apps.id = instances.app_id), app_version_id, previous_version_id, name, labels, config,
         operator_account_id, network_id, topology_mode, shape, state, health, repair, repairs, protected,
         expires_at, reason, message, running_witness_id, stopped_witness_id, operation_id, reconcile_due_at,
         reconciled_at, created_at, updated_at, version, previous_config, health_message, health_since"
    };
}

/// The condition that the instance has no open reconcile step. An instance that becomes due during one stays due: if it were
/// taken then, it would count as reconciled, and a suspicion raised during the step would be lost.
macro_rules! no_open_look {
    () => {
        "NOT EXISTS (SELECT 1 FROM adapter_steps WHERE adapter_steps.instance_id = instances.id
            AND adapter_steps.verb = 'reconcile' AND adapter_steps.state IN ('queued', 'leased'))"
    };
}

statements! {
    INSTANCE_REQUEST = both(
        "INSERT INTO instances (id, tenant_id, project_id, app_id, app_version_id, previous_version_id, name, labels, config,
            operator_account_id, network_id, topology_mode, shape, state, health, repair, repairs, protected, expires_at,
            operation_id, reconcile_due_at, created_at, updated_at, version)
         VALUES ($1, $2, $3, $4, $5, NULL, $6, $7, $8, $9, $10, NULL, $11, $12, $13, $14, $15, $16, $17, $18, NULL, $19, $19, 1)");
    INSTANCE_GET = both(concat!("SELECT ", columns!(), " FROM instances WHERE id = $1"));
    // Only a lock: serializes with changes of protection or expiry.
    INSTANCE_HOLD = both(concat!("UPDATE instances SET version = version WHERE id = $1 RETURNING ", columns!()));
    // A live instance comes first, then one whose name is free (in quarantine, or a launch that was rolled back), then the
    // latest stopped one.
    INSTANCE_BY_NAME = both(concat!("SELECT ", columns!(), " FROM instances
         WHERE project_id = $1 AND name = $2
         ORDER BY CASE WHEN state = 'stopped' THEN 2 WHEN name_freed_at IS NOT NULL THEN 1 ELSE 0 END, id DESC LIMIT 1"));
    INSTANCE_WITH_NAME = both(concat!("SELECT ", columns!(), " FROM instances
         WHERE project_id = $1 AND name = $2 AND state <> 'stopped' AND name_freed_at IS NULL"));
    // The conditions define "rolled back": no member, and no cell in its network.
    INSTANCE_FREE_NAME = both(
        "UPDATE instances SET name_freed_at = $2 WHERE id = $1 AND state = 'failed' AND name_freed_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM members m WHERE m.instance_id = $1 AND m.state <> 'removed')
            AND NOT EXISTS (SELECT 1 FROM cells c WHERE c.network_id = instances.network_id AND c.state NOT IN ('destroyed', 'failed'))");
    // Every member that is left is on its way out, and the rest of its removal is the platform's.
    INSTANCE_FREE_NAME_OF_QUARANTINED = both(
        "UPDATE instances SET name_freed_at = $2 WHERE id = $1 AND state = 'stopping' AND name_freed_at IS NULL
            AND NOT EXISTS (SELECT 1 FROM members m WHERE m.instance_id = $1 AND m.state NOT IN ('removing', 'removed'))");
    // The network keeps the files its members shared, and frees its name for the next instance's network.
    INSTANCE_NETWORK_RENAME = both("UPDATE networks SET name = $2, updated_at = $3, version = version + 1 WHERE id = $1");
    // $1 after, $2 limit, $3 and $4 labels, $5 project, $6 state or null.
    INSTANCE_LIST = pair(
        concat!("SELECT ", columns!(), " FROM instances WHERE id > $1 AND project_id = $5
            AND ($6::text IS NULL OR state = $6) AND ", labels_match!(pg "$3" "$4"), " ORDER BY id LIMIT $2"),
        concat!("SELECT ", columns!(), " FROM instances WHERE id > $1 AND project_id = $5
            AND ($6 IS NULL OR state = $6) AND ", labels_match!(sqlite "$3" "$4"), " ORDER BY id LIMIT $2"));
    // Every column that can change, conditional on the version the caller read.
    INSTANCE_MOVE = both(
        "UPDATE instances SET app_version_id = $2, previous_version_id = $3, labels = $4, config = $5, topology_mode = $6,
            state = $7, health = $8, repair = $9, repairs = $10, protected = $11, expires_at = $12, reason = $13, message = $14,
            running_witness_id = $15, stopped_witness_id = $16, operation_id = $17, reconcile_due_at = $18,
            updated_at = $19, previous_config = $21, health_message = $22, health_since = $23, version = version + 1
         WHERE id = $1 AND version = $20");
    INSTANCE_EXPIRED = both(concat!("SELECT ", columns!(), " FROM instances
         WHERE expires_at IS NOT NULL AND expires_at <= $1 AND state <> 'stopped' AND state <> 'stopping' AND NOT protected ORDER BY expires_at LIMIT $2"));
    // Taken by the next adapter that leases work; the row itself records until when no other adapter gets it.
    INSTANCE_RECONCILE_TAKE = pair(
        concat!("UPDATE instances SET reconcile_due_at = $3 WHERE id = ANY (ARRAY(
            SELECT id FROM instances WHERE operator_account_id = $1 AND reconcile_due_at <= $2 AND ", no_open_look!(), "
            ORDER BY reconcile_due_at LIMIT $4 FOR NO KEY UPDATE SKIP LOCKED)) RETURNING ", columns!()),
        concat!("UPDATE instances SET reconcile_due_at = $3 WHERE id IN (
            SELECT id FROM instances WHERE operator_account_id = $1 AND reconcile_due_at <= $2 AND ", no_open_look!(), "
            ORDER BY reconcile_due_at LIMIT $4) RETURNING ", columns!()));
    INSTANCE_RECONCILE_ANY = both(concat!(
        "SELECT id FROM instances WHERE operator_account_id = $1 AND reconcile_due_at <= $2 AND ", no_open_look!(), " LIMIT 1"));
    INSTANCE_RECONCILE_ACCOUNTS = both(concat!(
        "SELECT DISTINCT operator_account_id FROM instances WHERE reconcile_due_at <= $1 AND ", no_open_look!()));
    // Keeps an earlier due time, so that a suspicion raised meanwhile is not lost; NULL stays NULL, where no reconcile is
    // wanted.
    INSTANCE_RECONCILED = both(
        "UPDATE instances SET reconciled_at = $2, reconcile_due_at = CASE WHEN reconcile_due_at > $3 THEN $3 ELSE reconcile_due_at END
         WHERE id = $1");
    // Updates the row only if something changed.
    INSTANCE_HEALTH = both(
        "UPDATE instances SET health_since = CASE WHEN health = $2 THEN health_since ELSE $3 END, health = $2, health_message = $4,
            updated_at = $3, version = version + 1
         WHERE id = $1 AND (health <> $2 OR COALESCE(health_message, '') <> COALESCE($4, ''))");
    INSTANCE_TOPOLOGY = both(
        "UPDATE instances SET topology_mode = $2, updated_at = $3, version = version + 1
         WHERE id = $1 AND COALESCE(topology_mode, '') <> $2");
    INSTANCE_REPAIRED = both("UPDATE instances SET repairs = $2, updated_at = $3, version = version + 1 WHERE id = $1");
    // Only moves the due time forward, and only if a reconcile is scheduled.
    INSTANCE_SUSPECT = both(
        "UPDATE instances SET reconcile_due_at = $2 WHERE id = $1 AND reconcile_due_at > $2");
    // Independent of all other changes of the row, so the version stays.
    INSTANCE_UNWITNESSED = both("UPDATE instances SET unwitnessed_at = $2 WHERE id = $1");
    INSTANCE_UNWITNESSED_AT = both("SELECT unwitnessed_at FROM instances WHERE id = $1");
    COMPONENT_REQUEST = both(
        "INSERT INTO instance_components (instance_id, key, desired, last_ordinal, capacity, allocation_id)
         VALUES ($1, $2, $3, $4, $5, $6)");
    // A new release may have components that the previous one did not.
    COMPONENT_ENSURE = both(
        "INSERT INTO instance_components (instance_id, key, desired, last_ordinal, capacity, allocation_id)
         VALUES ($1, $2, 0, 0, NULL, NULL) ON CONFLICT DO NOTHING");
    COMPONENT_LIST = both(
        "SELECT instance_id, key, desired, last_ordinal, capacity, allocation_id FROM instance_components
         WHERE instance_id = $1 ORDER BY key");
    COMPONENT_LIST_BETWEEN = both(
        "SELECT instance_id, key, desired, last_ordinal, capacity, allocation_id FROM instance_components
         WHERE instance_id IN (SELECT id FROM instances WHERE project_id = $1 AND id >= $2 AND id <= $3) ORDER BY key");
    // Also a lock: every transaction that counts a component's members updates this row first.
    COMPONENT_WANT = both(
        "UPDATE instance_components SET desired = desired + $3, last_ordinal = last_ordinal + $4
         WHERE instance_id = $1 AND key = $2 RETURNING instance_id, key, desired, last_ordinal, capacity, allocation_id");
    COMPONENT_LAST_ORDINAL = both(
        "SELECT COALESCE(MAX(c.last_ordinal), 0) FROM instance_components c JOIN instances i ON i.id = c.instance_id
         WHERE i.project_id = $1 AND i.name = $2 AND c.key = $3 AND i.state = 'stopping' AND i.name_freed_at IS NOT NULL");
    COMPONENT_PLACE = both(
        "UPDATE instance_components SET capacity = $3, allocation_id = $4 WHERE instance_id = $1 AND key = $2");
}

fn instance(row: &Row) -> Result<Instance> {
    let state = row.get::<String>(14)?;
    let health = row.get::<String>(15)?;
    let repair = row.get::<String>(16)?;
    Ok(Instance {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        app_id: row.get(3)?,
        app: row.get(4)?,
        app_version_id: row.get(5)?,
        previous_version_id: row.get(6)?,
        name: row.get(7)?,
        labels: row.get(8)?,
        config: row.get(9)?,
        operator_account_id: row.get(10)?,
        network_id: row.get(11)?,
        topology_mode: row.get(12)?,
        shape: row.get(13)?,
        state: InstanceState::parse(&state).ok_or(StoreError::Corrupt("a state of an instance"))?,
        health: Health::parse(&health).ok_or(StoreError::Corrupt("a health"))?,
        repair: RepairMode::parse(&repair).ok_or(StoreError::Corrupt("a mode of repair"))?,
        repairs: serde_json::from_value(row.get(17)?).map_err(|_| StoreError::Corrupt("repairs"))?,
        protected: row.get(18)?,
        expires_at: row.get(19)?,
        reason: row.get::<Option<String>>(20)?.and_then(|reason| InstanceFailure::parse(&reason)),
        message: row.get(21)?,
        running_witness_id: row.get(22)?,
        stopped_witness_id: row.get(23)?,
        operation_id: row.get(24)?,
        reconcile_due_at: row.get(25)?,
        reconciled_at: row.get(26)?,
        created_at: row.get(27)?,
        updated_at: row.get(28)?,
        version: row.get(29)?,
        previous_config: row.get(30)?,
        health_message: row.get(31)?,
        health_since: row.get(32)?,
    })
}

fn component(row: &Row) -> Result<Component> {
    Ok(Component {
        instance_id: row.get(0)?,
        key: row.get(1)?,
        desired: row.get(2)?,
        last_ordinal: row.get(3)?,
        capacity: row.get::<Option<Json>>(4)?.map(|capacity| json(capacity, "a capacity")).transpose()?,
        allocation_id: row.get(5)?,
    })
}

/// Filter for lists of instances.
#[derive(Debug, Clone, Copy, Default)]
pub struct InstanceFilter {
    /// Only instances in this state.
    pub state: Option<InstanceState>,
}

impl Store {
    /// Returns when a member of an instance last left without evidence of its end.
    pub async fn instance_unwitnessed_at(&self, id: InstanceId) -> Result<Option<Timestamp>> {
        self.fetch_optional(&INSTANCE_UNWITNESSED_AT, args![id]).await?.map_or(Ok(None), |row| row.get(0))
    }

    /// Returns the instance with this id.
    pub async fn instance_lookup(&self, id: InstanceId) -> Result<Option<Instance>> {
        self.fetch_optional(&INSTANCE_GET, args![id]).await?.as_ref().map(instance).transpose()
    }

    /// Returns the instance of this name: the live one, or else the latest.
    pub async fn instance_by_name(&self, project: ProjectId, name: &str) -> Result<Option<Instance>> {
        self.fetch_optional(&INSTANCE_BY_NAME, args![project, name]).await?.as_ref().map(instance).transpose()
    }

    /// Returns the instance that currently owns this name.
    pub async fn instance_with_name(&self, project: ProjectId, name: &str) -> Result<Option<Instance>> {
        self.fetch_optional(&INSTANCE_WITH_NAME, args![project, name])
            .await?
            .as_ref()
            .map(instance)
            .transpose()
    }

    /// Returns a project's instances in creation order.
    pub async fn instance_list(
        &self,
        page: Page,
        labels: &LabelSelector,
        project: ProjectId,
        filter: InstanceFilter,
    ) -> Result<Vec<Instance>> {
        let args = args![
            page.after,
            page.size,
            labels.equal_json(),
            labels.not_equal_json(),
            project,
            filter.state.map(InstanceState::as_str)
        ];
        self.fetch_all(&INSTANCE_LIST, args).await?.iter().map(instance).collect()
    }

    /// Returns instances that have expired.
    pub async fn instance_expired(&self, now: Timestamp, most: i64) -> Result<Vec<Instance>> {
        self.fetch_all(&INSTANCE_EXPIRED, args![now, most]).await?.iter().map(instance).collect()
    }

    /// Returns an instance's components, sorted by key.
    pub async fn component_list(&self, id: InstanceId) -> Result<Vec<Component>> {
        self.fetch_all(&COMPONENT_LIST, args![id]).await?.iter().map(component).collect()
    }

    /// Returns the components of a project's instances from one instance id to another.
    pub async fn component_list_between(
        &self,
        project: ProjectId,
        (first, last): (InstanceId, InstanceId),
    ) -> Result<Vec<Component>> {
        let rows = self.fetch_all(&COMPONENT_LIST_BETWEEN, args![project, first, last]).await?;
        rows.iter().map(component).collect()
    }

    /// Reports whether an instance that this account operates is due for reconciliation: a read, so that polling costs no
    /// commit.
    pub async fn instance_reconcile_any(&self, account: ServiceAccountId, now: Timestamp) -> Result<bool> {
        Ok(self.fetch_optional(&INSTANCE_RECONCILE_ANY, args![account, now]).await?.is_some())
    }

    /// Returns the accounts that operate an instance due for reconciliation.
    pub async fn instance_reconcile_accounts(&self, now: Timestamp) -> Result<Vec<ServiceAccountId>> {
        let rows = self.fetch_all(&INSTANCE_RECONCILE_ACCOUNTS, args![now]).await?;
        rows.iter().map(|row| row.get(0)).collect()
    }
}

impl Tx {
    /// Stores a new instance.
    pub async fn instance_request(&mut self, instance: &Instance) -> Result<()> {
        let args = args![
            instance.id,
            instance.tenant_id,
            instance.project_id,
            instance.app_id,
            instance.app_version_id,
            &instance.name,
            &instance.labels,
            instance.config.clone(),
            instance.operator_account_id,
            instance.network_id,
            &instance.shape,
            instance.state.as_str(),
            instance.health.as_str(),
            instance.repair.as_str(),
            serde_json::json!(instance.repairs),
            instance.protected,
            instance.expires_at,
            instance.operation_id,
            instance.created_at
        ];
        self.execute(&INSTANCE_REQUEST, args).await.map(drop)
    }

    /// Updates an instance. `before` is the row the caller read; returns `Stale` if it changed since.
    pub async fn instance_move(&mut self, before: &Instance, after: &Instance, at: Timestamp) -> Result<()> {
        if !before.state.can_become(after.state) {
            let message = format!("an instance that is {} cannot become {}", before.state, after.state);
            return Err(StoreError::Conflict(message));
        }
        let args = args![
            after.id,
            after.app_version_id,
            after.previous_version_id,
            &after.labels,
            after.config.clone(),
            after.topology_mode.as_deref(),
            after.state.as_str(),
            after.health.as_str(),
            after.repair.as_str(),
            serde_json::json!(after.repairs),
            after.protected,
            after.expires_at,
            after.reason.map(InstanceFailure::as_str),
            after.message.as_deref(),
            after.running_witness_id,
            after.stopped_witness_id,
            after.operation_id,
            after.reconcile_due_at,
            at,
            before.version,
            after.previous_config.clone(),
            after.health_message.as_deref(),
            after.health_since
        ];
        self.execute_one(&INSTANCE_MOVE, args, StoreError::Stale).await
    }

    /// Frees the name of a failed launch if it is fully rolled back; reports whether it was. Its network, which may still
    /// have shared files, is renamed to the instance's id.
    pub async fn instance_free_name(&mut self, instance: &Instance, at: Timestamp) -> Result<bool> {
        if self.execute(&INSTANCE_FREE_NAME, args![instance.id, at]).await? == 0 {
            return Ok(false);
        }
        let name = instance.id.to_string();
        self.execute(&INSTANCE_NETWORK_RENAME, args![instance.network_id, name, at]).await?;
        Ok(true)
    }

    /// Frees the name of an instance whose remaining members are in quarantine; reports whether it did. Its network, with
    /// their cells in it, is renamed to the instance's id.
    pub async fn instance_free_name_of_quarantined(
        &mut self,
        instance: &Instance,
        at: Timestamp,
    ) -> Result<bool> {
        if self.execute(&INSTANCE_FREE_NAME_OF_QUARANTINED, args![instance.id, at]).await? == 0 {
            return Ok(false);
        }
        let name = instance.id.to_string();
        self.execute(&INSTANCE_NETWORK_RENAME, args![instance.network_id, name, at]).await?;
        Ok(true)
    }

    /// Returns the last ordinal of a component among earlier instances of this name that are in quarantine: their members
    /// keep their names, which a new instance must not use.
    pub async fn component_last_ordinal(&mut self, project: ProjectId, name: &str, key: &str) -> Result<i64> {
        let rows = self.fetch_all(&COMPONENT_LAST_ORDINAL, args![project, name, key]).await?;
        rows.first().map_or(Ok(0), |row| row.get(0))
    }

    /// Returns the instance with this id, as read by this transaction.
    pub async fn instance_now(&mut self, id: InstanceId) -> Result<Option<Instance>> {
        self.fetch_all(&INSTANCE_GET, args![id]).await?.first().map(instance).transpose()
    }

    /// Does the same and locks the instance until the transaction ends. Lock order: operations before instances, never
    /// after.
    pub async fn instance_hold(&mut self, id: InstanceId) -> Result<Option<Instance>> {
        self.fetch_all(&INSTANCE_HOLD, args![id]).await?.first().map(instance).transpose()
    }

    /// Takes up to `most` instances of this account that are due for reconciliation; no other adapter gets them before
    /// `until`.
    pub async fn instance_reconcile_take(
        &mut self,
        account: ServiceAccountId,
        now: Timestamp,
        until: Timestamp,
        most: i64,
    ) -> Result<Vec<Instance>> {
        let rows = self.fetch_all(&INSTANCE_RECONCILE_TAKE, args![account, now, until, most]).await?;
        rows.iter().map(instance).collect()
    }

    /// Records a reconciliation; `next` is the latest next due time, unless no reconcile is scheduled any more.
    pub async fn instance_reconciled(
        &mut self,
        id: InstanceId,
        at: Timestamp,
        next: Timestamp,
    ) -> Result<()> {
        self.execute(&INSTANCE_RECONCILED, args![id, at, next]).await.map(drop)
    }

    /// Stores an instance's health and its reason; reports whether anything changed.
    pub async fn instance_health(
        &mut self,
        id: InstanceId,
        health: Health,
        message: Option<&str>,
        at: Timestamp,
    ) -> Result<bool> {
        Ok(self.execute(&INSTANCE_HEALTH, args![id, health.as_str(), at, message]).await? == 1)
    }

    /// Records the adapter's name for an instance's topology.
    pub async fn instance_topology(&mut self, id: InstanceId, mode: &str, at: Timestamp) -> Result<bool> {
        Ok(self.execute(&INSTANCE_TOPOLOGY, args![id, mode, at]).await? == 1)
    }

    /// Records the times of automatic repairs.
    pub async fn instance_repaired(
        &mut self,
        id: InstanceId,
        repairs: &[Timestamp],
        at: Timestamp,
    ) -> Result<()> {
        self.execute(&INSTANCE_REPAIRED, args![id, serde_json::json!(repairs), at]).await.map(drop)
    }

    /// Schedules an immediate reconciliation, because something may be wrong with an instance.
    pub async fn instance_schedule_reconcile(&mut self, id: InstanceId, now: Timestamp) -> Result<()> {
        self.execute(&INSTANCE_SUSPECT, args![id, now]).await.map(drop)
    }

    /// Records that a member left without evidence of its end: it was fenced, or an operator attested its end. Shared
    /// resources of the members may have another owner now, so the instance is reconciled immediately.
    pub async fn instance_unwitnessed(&mut self, id: InstanceId, at: Timestamp) -> Result<()> {
        self.execute(&INSTANCE_UNWITNESSED, args![id, at]).await?;
        self.instance_schedule_reconcile(id, at).await
    }

    /// Stores a component of a new instance.
    pub async fn component_request(&mut self, component: &Component) -> Result<()> {
        let args = args![
            component.instance_id,
            &component.key,
            component.desired,
            component.last_ordinal,
            component.capacity.as_ref().map(to_json),
            component.allocation_id
        ];
        self.execute(&COMPONENT_REQUEST, args).await.map(drop)
    }

    /// Stores a component with a desired count of 0 unless it exists.
    pub async fn component_ensure(&mut self, id: InstanceId, key: &str) -> Result<()> {
        self.execute(&COMPONENT_ENSURE, args![id, key]).await.map(drop)
    }

    /// Returns an instance's components, sorted by key, as read by this transaction.
    pub async fn component_list_now(&mut self, id: InstanceId) -> Result<Vec<Component>> {
        self.fetch_all(&COMPONENT_LIST, args![id]).await?.iter().map(component).collect()
    }

    /// Changes the desired count of a component and reserves member ordinals; returns the updated component, locked until
    /// this transaction ends.
    pub async fn component_change_desired(
        &mut self,
        id: InstanceId,
        key: &str,
        more: i64,
        ordinals: i64,
    ) -> Result<Component> {
        let rows = self.fetch_all(&COMPONENT_WANT, args![id, key, more, ordinals]).await?;
        rows.first().map_or(Err(StoreError::Gone("component".to_owned())), component)
    }

    /// Sets the placement of a component's new members and the capacity of each.
    pub async fn component_place(
        &mut self,
        id: InstanceId,
        key: &str,
        capacity: Option<Capacity>,
        allocation: Option<AllocationId>,
    ) -> Result<()> {
        self.execute(&COMPONENT_PLACE, args![id, key, capacity.as_ref().map(to_json), allocation])
            .await
            .map(drop)
    }
}
