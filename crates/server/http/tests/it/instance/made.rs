//! A running instance and a leased step according to the database, for tests of permissions.

use jiff::SignedDuration;
use muster_api::adapter_step::CellTask;
use muster_engine::StoredAct;
use muster_ids::{Env, InstanceId, MemberId, TypedId as _};
use muster_model::adapter::{AdapterStep, AdapterStepState, AdapterVerb};
use muster_model::instance::{Component, Health, Instance, InstanceState, NewInstance};
use muster_model::member::{Member, MemberState, NewMember};
use muster_model::task::{Task, TaskState};
use muster_model::witness::{Transition, Witness, WitnessKind};
use muster_testkit::{Fixture, Kit};
use muster_wire::act::{CellTarget, Executor, OwnedAllocation};
use serde_json::json;
use uuid::Uuid;

fn witness(env: &Env, subject_id: Uuid, transition: Transition) -> Witness {
    Witness {
        id: env.id(),
        subject_id,
        transition,
        kind: WitnessKind::Witnessed,
        incarnation: 1,
        operation_id: None,
        node_id: None,
        task_id: None,
        actor_id: None,
        checked: json!([]),
        result: json!({}),
        at: env.now(),
    }
}

/// Creates a running instance of the fixture's app in `acme.train` with one worker, a step leased by its operator, and a
/// task under that step. Its operator is the account with all permissions.
pub(crate) async fn made(kit: &Kit, fixture: &mut Fixture) {
    let env = Env::system();
    let now = env.now();
    let store = kit.store();
    let project = store.project_lookup(fixture.id("train").parse().unwrap()).await.unwrap().unwrap();
    let mut tx = store.begin().await.unwrap();
    let network = tx.network_ensure(env.id(), project.tenant_id, project.id, "farm", now).await.unwrap();
    let (id, member_id): (InstanceId, MemberId) = (env.id(), env.id());
    let mut instance = Instance::requested(NewInstance {
        id,
        tenant_id: project.tenant_id,
        project_id: project.id,
        app_id: fixture.id("app").parse().unwrap(),
        app_version_id: fixture.id("app_version").parse().unwrap(),
        operator_account_id: fixture.id("account_with_grant").parse().unwrap(),
        network_id: network.id,
        name: "farm".to_owned(),
        now,
    });
    tx.instance_request(&instance).await.unwrap();
    let runs = witness(&env, id.uuid(), Transition::Running);
    tx.witness_insert(&runs).await.unwrap();
    for state in [InstanceState::Starting, InstanceState::Running] {
        let after = Instance { state, running_witness_id: Some(runs.id), ..instance.clone() };
        tx.instance_move(&instance, &after, now).await.unwrap();
        instance = Instance { version: instance.version + 1, ..after };
    }
    let component = Component {
        instance_id: id,
        key: "worker".to_owned(),
        desired: 1,
        last_ordinal: 1,
        capacity: None,
        allocation_id: None,
    };
    tx.component_request(&component).await.unwrap();
    let works = witness(&env, member_id.uuid(), Transition::Active);
    let new = NewMember {
        id: member_id,
        instance: &instance,
        component_key: "worker",
        ordinal: 1,
        allocation_id: None,
        operation_id: env.id(),
        correlation_id: "made",
        now,
    };
    let mut member = Member { health: Health::Healthy, operation_id: None, ..Member::requested(new) };
    tx.member_request(&member).await.unwrap();
    tx.witness_insert(&works).await.unwrap();
    for state in [MemberState::Provisioning, MemberState::Joining, MemberState::Active] {
        let after = Member {
            state,
            active_witness_id: Some(works.id),
            app_version_id: Some(instance.app_version_id),
            ..member.clone()
        };
        tx.member_move(&member, &after, now).await.unwrap();
        member = Member { version: member.version + 1, ..after };
    }
    let step = AdapterStep {
        id: env.id(),
        tenant_id: project.tenant_id,
        project_id: project.id,
        app_id: instance.app_id,
        instance_id: id,
        member_id: Some(member_id),
        incarnation: 0,
        operation_id: Some(env.id()),
        key: "join".to_owned(),
        verb: AdapterVerb::Join,
        operator_account_id: instance.operator_account_id,
        input: json!({}),
        state: AdapterStepState::Queued,
        generation: 0,
        holder: String::new(),
        leased_until: None,
        due_at: now,
        attempts: 0,
        message: None,
        percent: None,
        reason: None,
        adapter_detail: None,
        correlation_id: "made".to_owned(),
        created_at: now,
        expires_at: now + SignedDuration::from_hours(1),
        finished_at: None,
    };
    tx.adapter_step_queue(&step).await.unwrap();
    let hour = SignedDuration::from_hours(1);
    let leased = tx.adapter_step_lease(instance.operator_account_id, "made", now, hour, 1).await.unwrap();
    assert_eq!(leased[0].generation, 1);
    // The exact task that the matrix requests: its key returns this one.
    let command: CellTask = serde_json::from_value(json!({"command": {"command": ["/bin/true"]}})).unwrap();
    let allocation = OwnedAllocation { allocation_id: env.id(), tenant_id: env.id(), project_id: env.id() };
    let cell = CellTarget { executor: Executor::Cell, cell_id: env.id(), incarnation: 1 };
    let stored = StoredAct::from_act(&command.into_act(allocation, cell)).unwrap();
    let task = Task {
        id: env.id(),
        node_id: fixture.id("machine").parse().unwrap(),
        operation_id: step.operation_id.unwrap(),
        key: format!("adapter/{}/made", step.id),
        kind: stored.kind,
        allocation_id: stored.allocation_id,
        incarnation: 1,
        generation: 1,
        payload: stored.payload,
        state: TaskState::Queued,
        result: None,
        message: None,
        correlation_id: "made".to_owned(),
        queued_at: now,
        delivered_at: None,
        finished_at: None,
        expires_at: now + hour,
    };
    tx.task_queue(&task).await.unwrap();
    tx.commit().await.unwrap();
    for (name, id) in [
        ("instance", id.to_string()),
        ("member", member_id.to_string()),
        ("adapter_step", step.id.to_string()),
        ("adapter_task", task.id.to_string()),
    ] {
        fixture.ids.insert(name.to_owned(), id);
    }
}
