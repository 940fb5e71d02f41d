//! Granted streams, each joined once and soon by the actor it was granted to. Their contents are never in the database.

use jiff::Timestamp;
use muster_ids::{CellId, ProjectId, StreamId, TenantId};
use muster_model::Scope;
use serde_json::Value as Json;

use crate::sql::{Row, args, both, statements};
use crate::{Result, Store, StoreError, Tx};

macro_rules! columns {
    () => {
        "id, tenant_id, project_id, cell_id, incarnation, actor_id, what, created_at, expires_at, joined_at"
    };
}

statements! {
    STREAM_INSERT = both(concat!("INSERT INTO cell_streams (", columns!(), ")
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, NULL)"));
    STREAM_GET = both(concat!("SELECT ", columns!(), " FROM cell_streams WHERE id = $1"));
    STREAM_JOIN = both(
        "UPDATE cell_streams SET joined_at = $3 WHERE id = $1 AND actor_id = $2 AND joined_at IS NULL AND expires_at > $3");
    STREAM_PRUNE = both("DELETE FROM cell_streams WHERE expires_at < $1");
    // Tasks are deleted with their streams: their payload may be sensitive, and no operation waits for them.
    STREAM_TASK_PRUNE = both("DELETE FROM node_tasks WHERE kind = 'stream' AND expires_at < $1");
    STREAM_DELETE_OF_PROJECT = both("DELETE FROM cell_streams WHERE project_id = $1");
    STREAM_DELETE_OF_TENANT = both("DELETE FROM cell_streams WHERE tenant_id = $1");
}

/// A granted stream.
#[derive(Debug, Clone)]
pub struct Stream {
    /// Its id.
    pub id: StreamId,
    /// The tenant.
    pub tenant_id: TenantId,
    /// The project.
    pub project_id: ProjectId,
    /// The cell.
    pub cell_id: CellId,
    /// The cell's incarnation.
    pub incarnation: i64,
    /// The actor that can join it.
    pub actor_id: String,
    /// The request, in the terms of the node protocol.
    pub what: Json,
    /// Time of the grant.
    pub created_at: Timestamp,
    /// End of the time in which it can be joined.
    pub expires_at: Timestamp,
    /// Time of the join.
    pub joined_at: Option<Timestamp>,
}

impl Stream {
    /// Returns the scope of the stream.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

fn stream(row: &Row) -> Result<Stream> {
    Ok(Stream {
        id: row.get(0)?,
        tenant_id: row.get(1)?,
        project_id: row.get(2)?,
        cell_id: row.get(3)?,
        incarnation: row.get(4)?,
        actor_id: row.get(5)?,
        what: row.get(6)?,
        created_at: row.get(7)?,
        expires_at: row.get(8)?,
        joined_at: row.get(9)?,
    })
}

impl Store {
    /// Returns the stream with this id.
    pub async fn stream_lookup(&self, id: StreamId) -> Result<Option<Stream>> {
        self.fetch_optional(&STREAM_GET, args![id]).await?.as_ref().map(stream).transpose()
    }
}

impl Tx {
    /// Grants a stream.
    pub async fn stream_insert(&mut self, stream: &Stream) -> Result<()> {
        let args = args![
            stream.id,
            stream.tenant_id,
            stream.project_id,
            stream.cell_id,
            stream.incarnation,
            &stream.actor_id,
            stream.what.clone(),
            stream.created_at,
            stream.expires_at
        ];
        self.execute(&STREAM_INSERT, args).await.map(drop)
    }

    /// Joins a stream as this actor. Returns `Stale` if it belongs to another actor, was already joined, or has expired.
    pub async fn stream_join(&mut self, id: StreamId, actor_id: &str, at: Timestamp) -> Result<()> {
        self.execute_one(&STREAM_JOIN, args![id, actor_id, at], StoreError::Stale).await
    }

    /// Deletes streams that expired before `until`, and their node tasks.
    pub async fn stream_prune(&mut self, until: Timestamp) -> Result<u64> {
        self.execute(&STREAM_TASK_PRUNE, args![until]).await?;
        self.execute(&STREAM_PRUNE, args![until]).await
    }

    /// Deletes the streams to a project's cells.
    pub async fn stream_delete_of_project(&mut self, project: ProjectId) -> Result<u64> {
        self.execute(&STREAM_DELETE_OF_PROJECT, args![project]).await
    }

    /// Deletes the streams to a tenant's cells.
    pub async fn stream_delete_of_tenant(&mut self, tenant: TenantId) -> Result<u64> {
        self.execute(&STREAM_DELETE_OF_TENANT, args![tenant]).await
    }
}
