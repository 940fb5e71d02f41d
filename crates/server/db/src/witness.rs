//! Witnesses: evidence for state transitions.

use muster_ids::WitnessId;
use muster_model::witness::{Transition, Witness, WitnessKind};
use uuid::Uuid;

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store, StoreError, Tx};

statements! {
    WITNESS_INSERT = both(
        "INSERT INTO witnesses (id, subject_id, transition, kind, incarnation, operation_id, node_id, task_id, actor_id,
                                checked, result, at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)");
    WITNESS_GET = both(
        "SELECT id, subject_id, transition, kind, incarnation, operation_id, node_id, task_id, actor_id, checked, result, at
         FROM witnesses WHERE id = $1");
    WITNESS_LIST = both(
        "SELECT id, subject_id, transition, kind, incarnation, operation_id, node_id, task_id, actor_id, checked, result, at
         FROM witnesses WHERE subject_id = $1 ORDER BY at, id");
}

fn witness(row: &Row) -> Result<Witness> {
    Ok(Witness {
        id: row.get(0)?,
        subject_id: row.get(1)?,
        transition: Transition::parse(&row.get::<String>(2)?).ok_or(StoreError::Corrupt("a transition"))?,
        kind: WitnessKind::parse(&row.get::<String>(3)?).ok_or(StoreError::Corrupt("a kind of witness"))?,
        incarnation: row.get(4)?,
        operation_id: row.get(5)?,
        node_id: row.get(6)?,
        task_id: row.get(7)?,
        actor_id: row.get(8)?,
        checked: row.get(9)?,
        result: row.get(10)?,
        at: row.get(11)?,
    })
}

impl Store {
    /// Returns the witness with this id.
    pub async fn witness_lookup(&self, id: WitnessId) -> Result<Option<Witness>> {
        self.fetch_optional(&WITNESS_GET, args![id]).await?.as_ref().map(witness).transpose()
    }

    /// Returns all evidence about a subject, oldest first.
    pub async fn witness_list(&self, subject: Uuid) -> Result<Vec<Witness>> {
        self.fetch_all(&WITNESS_LIST, args![subject]).await?.iter().map(witness).collect()
    }
}

impl Tx {
    /// Stores evidence.
    pub async fn witness_insert(&mut self, witness: &Witness) -> Result<()> {
        let args = args![
            witness.id,
            witness.subject_id,
            witness.transition.as_str(),
            witness.kind.as_str(),
            witness.incarnation,
            witness.operation_id,
            witness.node_id,
            witness.task_id,
            witness.actor_id.as_deref(),
            witness.checked.clone(),
            witness.result.clone(),
            witness.at
        ];
        self.execute(&WITNESS_INSERT, args).await.map(drop)
    }
}
