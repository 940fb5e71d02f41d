//! Granted streams: joined once, in time, by the requesting actor.

use muster_db::{Result, Store, Stream};
use muster_model::Labels;
use muster_model::cell::{Cell, CellState};
use muster_model::task::TaskKind;
use serde_json::json;

use crate::made::{self, at, fleet, is_stale, put, same};

on_both![
    a_stream_reads_back_as_it_was_granted,
    a_stream_is_joined_by_its_asker_once_and_in_time,
    streams_that_can_be_joined_no_more_are_forgotten_with_their_tasks,
    streams_go_with_their_project_or_tenant,
];

async fn cell(store: &Store) -> Cell {
    let (tenant, project) = fleet::place(store).await;
    let (node, _) = fleet::machine(store, "gpu-1", 0).await;
    let allocation = fleet::requested(store, &project, "a").await;
    put(store, async |tx| {
        let network = tx.network_ensure(made::id(), tenant.id, project.id, "cells", at(0)).await?;
        let cell = Cell {
            id: made::id(),
            tenant_id: tenant.id,
            project_id: project.id,
            allocation_id: allocation.id,
            node_id: node,
            network_id: network.id,
            name: "shell".to_owned(),
            labels: Labels::new(),
            spec: json!({}),
            people: false,
            artifact_id: None,
            member_id: None,
            fenced: false,
            host: 2,
            state: CellState::Provisioning,
            incarnation: 1,
            reason: None,
            message: None,
            running_witness_id: None,
            destroyed_witness_id: None,
            operation_id: None,
            created_at: at(0),
            updated_at: at(0),
            version: 1,
        };
        tx.cell_request(&cell).await?;
        Ok(cell)
    })
    .await
    .unwrap()
}

async fn granted(store: &Store, cell: &Cell) -> Stream {
    let stream = Stream {
        id: made::id(),
        tenant_id: cell.tenant_id,
        project_id: cell.project_id,
        cell_id: cell.id,
        incarnation: cell.incarnation,
        actor_id: "usr_1".to_owned(),
        what: json!({"command": {"command": ["true"]}}),
        created_at: at(0),
        expires_at: at(60),
        joined_at: None,
    };
    put(store, async |tx| tx.stream_insert(&stream).await).await.unwrap();
    stream
}

async fn join(store: &Store, stream: &Stream, actor: &str, seconds: i64) -> Result<()> {
    put(store, async |tx| tx.stream_join(stream.id, actor, at(seconds)).await).await
}

async fn a_stream_reads_back_as_it_was_granted(store: Store) {
    let cell = cell(&store).await;
    let mut stream = granted(&store, &cell).await;
    same(&store.stream_lookup(stream.id).await.unwrap().unwrap(), &stream);
    join(&store, &stream, "usr_1", 5).await.unwrap();
    stream.joined_at = Some(at(5));
    same(&store.stream_lookup(stream.id).await.unwrap().unwrap(), &stream);
    assert!(store.stream_lookup(made::id()).await.unwrap().is_none());
}

async fn a_stream_is_joined_by_its_asker_once_and_in_time(store: Store) {
    let cell = cell(&store).await;
    let stream = granted(&store, &cell).await;
    is_stale(join(&store, &stream, "usr_2", 5).await);
    is_stale(join(&store, &stream, "usr_1", 60).await);
    join(&store, &stream, "usr_1", 59).await.unwrap();
    is_stale(join(&store, &stream, "usr_1", 59).await);
}

async fn streams_that_can_be_joined_no_more_are_forgotten_with_their_tasks(store: Store) {
    let cell = cell(&store).await;
    let stream = granted(&store, &cell).await;
    let mut task = fleet::task(cell.node_id, made::id(), "stream");
    (task.kind, task.expires_at) = (TaskKind::Stream, at(60));
    let mut other = fleet::task(cell.node_id, made::id(), "prepare");
    other.expires_at = at(60);
    put(&store, async |tx| {
        tx.task_queue(&task).await?;
        tx.task_queue(&other).await
    })
    .await
    .unwrap();
    let prune = async |until| put(&store, async |tx| tx.stream_prune(at(until)).await).await.unwrap();
    assert_eq!(prune(60).await, 0);
    assert!(store.task_lookup(task.id).await.unwrap().is_some());
    assert_eq!(prune(61).await, 1);
    assert!(store.stream_lookup(stream.id).await.unwrap().is_none());
    assert!(store.task_lookup(task.id).await.unwrap().is_none());
    assert!(store.task_lookup(other.id).await.unwrap().is_some(), "another's task is not ours to forget");
}

async fn streams_go_with_their_project_or_tenant(store: Store) {
    let cell = cell(&store).await;
    let first = granted(&store, &cell).await;
    let removed = put(&store, async |tx| tx.stream_delete_of_project(cell.project_id).await).await.unwrap();
    assert_eq!(removed, 1);
    assert!(store.stream_lookup(first.id).await.unwrap().is_none());
    granted(&store, &cell).await;
    assert_eq!(put(&store, async |tx| tx.stream_delete_of_tenant(cell.tenant_id).await).await.unwrap(), 1);
    assert_eq!(put(&store, async |tx| tx.stream_delete_of_tenant(cell.tenant_id).await).await.unwrap(), 0);
}
