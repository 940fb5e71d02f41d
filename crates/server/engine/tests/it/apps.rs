//! An app of two components in the rig: rows as the commands write them, and operations as they open them.

use jiff::SignedDuration;
use muster_db::{Store, Tx};
use muster_engine::{Definition, OperationRequest, accept, instance, member, members, supersede};
use muster_ids::{
    AppId, AppVersionId, Env, InstanceId, MemberId, OperationId, ServiceAccountId, TypedId as _,
};
use muster_model::app::{App, AppVersion, Audience, Entitlement};
use muster_model::artifact::{ArtifactState, Change};
use muster_model::identity::ServiceAccount;
use muster_model::instance::{Component, Instance, InstanceState, NewInstance, RepairMode};
use muster_model::member::{Member, MemberState, NewMember};
use muster_model::operation::{Item, ItemState, Operation, OperationKind, OperationState};
use muster_model::operation_input::OperationInput;
use muster_model::{Labels, Project};
use serde_json::{Value, json};

use crate::rig::{Rig, input_of};

/// Fixture of every test: an app with two releases, and the account of its adapter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Catalog {
    app: AppId,
    /// The first and the second release.
    pub(crate) versions: [AppVersionId; 2],
    /// A third, with a majority quorum for its units.
    pub(crate) steady: AppVersionId,
    pub(crate) account: ServiceAccountId,
}

/// A hub, which is up by files in its cell; units, with a state recorded in the hub.
pub(crate) fn manifest(version: &str, replace_order: &str) -> Value {
    let check = |place: &str, exec: [&str; 2], stdout: &str| json!({"in": place, "exec": exec, "expect": {"stdout": stdout}, "within": "2s"});
    let of_unit = |word: &str| check("hub", ["/bin/cat", "/members/{member.name}"], word);
    let runtime = |port: u16, start: &str| {
        json!({"root": {"host": ["/usr"]}, "services": [{"name": "main", "command": ["/bin/main"], "start": start}],
               "environment": {"RELEASE": version}, "ports": [{"name": "http", "port": port, "expose": "node"}]})
    };
    let whole =
        json!({"in": "self", "exec": ["/bin/test", "-e", "/broken"], "expect": {"exit": 1}, "within": "2s"});
    // The second release listens on another port.
    let port = if version == "1" { 80 } else { 81 };
    let mut manifest = json!({
        "app": "pair", "version": version, "artifact_kind": "controller",
        "compatibility": {"requires_capacity_shape": ["gpu_slice"]},
        "operations": ["add", "drain", "resume", "remove", "replace", "recover"],
        "components": [
            {"key": "hub", "count": {"min": 1, "max": 1}, "capacity": {"cpus": 1, "memory_mb": 64}, "update_order": 0, "reach": "routed",
             "state": ["/members"], "shared": ["/common"], "runtime": runtime(port, "with_cell"),
             "witnesses": {"active": [check("self", ["/bin/cat", "/ready"], "^up$"), whole],
                           "drained": [check("self", ["/bin/cat", "/ready"], "^drained$")]}},
            {"key": "unit", "count": {"min": 0, "max": 64}, "capacity": {"cpus": 1, "memory_mb": 64}, "update_order": 1, "reach": "routed",
             "drain_pace": {"at_once": 2}, "replace_order": replace_order, "shared": ["/common"], "runtime": runtime(port, "on_request"),
             "witnesses": {"active": [of_unit("^active$")], "drained": [of_unit("^drained$")],
                           "removed": [{"in": "hub", "exec": ["/bin/test", "-e", "/members/{member.name}"],
                                        "expect": {"exit": 1}, "within": "2s"}]}},
        ],
    });
    if version == "3" {
        manifest["components"][1]["quorum"] = json!("majority");
    }
    manifest
}

impl Catalog {
    pub(crate) async fn stock(store: &Store, env: &Env, project: &Project) -> Self {
        let now = env.now();
        let (tenant_id, project_id) = (project.tenant_id, project.id);
        let account = ServiceAccount {
            id: env.id(),
            tenant_id,
            project_id,
            name: "pair-adapter".to_owned(),
            description: String::new(),
            permissions: Vec::new(),
            disabled: false,
            labels: Labels::new(),
            created_at: now,
            updated_at: now,
            version: 1,
        };
        let app = App {
            id: env.id(),
            tenant_id,
            project_id,
            slug: "pair".to_owned(),
            display_name: "Pair".to_owned(),
            description: String::new(),
            audience: Audience::Project,
            labels: Labels::new(),
            created_at: now,
            updated_at: now,
            version: 1,
        };
        let entitlement = Entitlement {
            id: env.id(),
            tenant_id,
            project_id,
            app_id: app.id,
            publisher_project_id: project_id,
            operator_account_id: account.id,
            permissions: vec!["adapter_step.lease".to_owned()],
            revoked_at: None,
            created_at: now,
            updated_at: now,
            version: 1,
        };
        let release = |name: &str, replace_order: &str| AppVersion {
            id: env.id(),
            tenant_id,
            project_id,
            app_id: app.id,
            name: name.to_owned(),
            manifest: manifest(name, replace_order),
            digest: format!("sha256:{name}"),
            state: ArtifactState::Draft,
            canary_percent: None,
            superseded_by: None,
            deprecated_at: None,
            created_at: now,
            updated_at: now,
            version: 1,
        };
        let releases = [release("1", "new_first"), release("2", "old_first"), release("3", "old_first")];
        let change = Change {
            before: None,
            after: ArtifactState::Draft,
            actor_id: "usr_test".to_owned(),
            reason: String::new(),
            at: now,
        };
        let mut tx = store.begin().await.unwrap();
        tx.service_account_insert(&account).await.unwrap();
        tx.app_insert(&app).await.unwrap();
        tx.entitlement_insert(&entitlement).await.unwrap();
        for release in &releases {
            tx.app_version_publish(release, &[], &change).await.unwrap();
        }
        tx.commit().await.unwrap();
        store.sabotage("UPDATE app_versions SET state = 'active' WHERE name = '1'").await.unwrap();
        let [first, second, third] = releases;
        Self { app: app.id, versions: [first.id, second.id], steady: third.id, account: account.id }
    }
}

/// Input of a request for new members.
pub(crate) fn adding(rig: &Rig) -> Value {
    json!({"app_version_id": rig.catalog.versions[0], "shape": "gpu_slice",
           "capacity": {"hub": {"gpus": 0, "cpus": 1, "memory_mb": 64, "disk_mb": 64},
                        "unit": {"gpus": rig.unit_gpus, "cpus": 1, "memory_mb": 64, "disk_mb": 64}}})
}

/// Returns the input with what new members need to know.
fn with_new_members(rig: &Rig, input: OperationInput) -> OperationInput {
    let OperationInput { app_version_id, shape, capacity, .. } = input_of(adding(rig));
    OperationInput { app_version_id, shape, capacity, ..input }
}

fn item(member: &Member) -> Item {
    let (id, name) = (member.id.to_string(), member.name.clone());
    Item { id, name, state: ItemState::Pending, operation_id: None, message: None }
}

impl Rig {
    pub(crate) async fn member(&self, id: MemberId) -> Member {
        self.store.member_lookup(id).await.unwrap().unwrap()
    }

    pub(crate) async fn app_instance(&self, id: InstanceId) -> Instance {
        self.store.instance_lookup(id).await.unwrap().unwrap()
    }

    /// Returns the desired count of a component.
    pub(crate) async fn desired(&self, id: InstanceId, key: &str) -> i64 {
        let components = self.store.component_list(id).await.unwrap();
        components.iter().find(|component| component.key == key).unwrap().desired
    }

    /// Returns the hub.
    pub(crate) async fn hub(&self, id: InstanceId) -> MemberId {
        let members = self.store.member_living(id).await.unwrap();
        members.iter().find(|member| member.component_key == "hub").unwrap().id
    }

    /// Returns the living units, in order.
    pub(crate) async fn units(&self, id: InstanceId) -> Vec<MemberId> {
        let members = self.store.member_living(id).await.unwrap();
        members.iter().filter(|member| member.component_key == "unit").map(|member| member.id).collect()
    }

    /// Returns the hub's record of a unit.
    pub(crate) async fn known(&self, id: MemberId) -> Option<String> {
        let member = self.member(id).await;
        let path = format!("{}{}", crate::node::STATE, member.name);
        let nodes = [Some(&self.node), self.far.as_ref()];
        nodes
            .into_iter()
            .flatten()
            .flat_map(|node| node.files.values())
            .find_map(|files| files.get(&path).cloned())
    }

    fn member_row(&self, instance: &Instance, key: &str, ordinal: i64) -> Member {
        let new = NewMember {
            id: self.env.id(),
            instance,
            component_key: key,
            ordinal,
            allocation_id: None,
            operation_id: self.env.id(),
            correlation_id: "c",
            now: self.env.now(),
        };
        Member { operation_id: None, ..Member::requested(new) }
    }

    /// Inserts new members of a component; `more` is the change of its desired count.
    async fn rows(&self, tx: &mut Tx, instance: &Instance, key: &str, count: i64, more: i64) -> Vec<Member> {
        let component = tx.component_change_desired(instance.id, key, more, count).await.unwrap();
        let mut made = Vec::new();
        for back in (0..count).rev() {
            // Ids of one instant have no order.
            self.clock.advance(SignedDuration::from_millis(1));
            let member = self.member_row(instance, key, component.last_ordinal - back);
            tx.member_request(&member).await.unwrap();
            made.push(member);
        }
        made
    }

    fn opened_app(
        &self,
        definition: &'static Definition,
        subject: (&'static str, uuid::Uuid, &str),
        shared_locks: Vec<uuid::Uuid>,
        input: Value,
    ) -> Operation {
        self.clock.advance(SignedDuration::from_millis(1));
        let now = self.env.now();
        let bulk = definition.kind.is_of("members");
        accept(
            definition,
            OperationRequest {
                id: self.env.id(),
                scope: muster_model::Scope::Project(self.project.tenant_id, self.project.id),
                subject_kind: subject.0,
                subject_id: subject.1,
                subject_name: subject.2.to_owned(),
                exclusive_locks: if bulk { Vec::new() } else { vec![subject.1] },
                shared_locks,
                timeline: muster_model::event::Timeline::default(),
                asked_by: self.asked(),
                correlation_id: "c".to_owned(),
                input: input_of(input),
                deadline_at: now + SignedDuration::from_secs(300),
                parent_id: None,
                now,
            },
        )
    }

    /// Opens an operation on one member. An open operation on it is superseded if `takes_over` is set.
    pub(crate) async fn member_op_with(
        &self,
        definition: &'static Definition,
        id: MemberId,
        input: Value,
        takes_over: bool,
    ) -> OperationId {
        let member = self.member(id).await;
        let shares = vec![member.instance_id.uuid()];
        let mut operation = self.opened_app(definition, ("member", id.uuid(), &member.name), shares, input);
        let under_way = self.store.operation_open_on(id.uuid()).await.unwrap();
        let now = self.env.now();
        let mut tx = self.store.begin().await.unwrap();
        // A member being removed is not uncounted twice.
        let going = under_way.iter().any(|other| other.kind == OperationKind::MemberRemove);
        if definition.kind == OperationKind::MemberRemove && !member.never_worked() && !going {
            tx.component_change_desired(member.instance_id, &member.component_key, -1, 0).await.unwrap();
        }
        if definition.kind == OperationKind::MemberReplace {
            let instance = self.app_instance(member.instance_id).await;
            let more = i64::from(member.never_worked());
            let new = self.rows(&mut tx, &instance, &member.component_key, 1, more).await.remove(0);
            operation.input = with_new_members(self, operation.input);
            operation.input.successor = Some(new.id);
        }
        if takes_over {
            for old in &under_way {
                assert!(supersede(&mut tx, &self.env, old, &mut operation, now).await.unwrap());
            }
        }
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        operation.id
    }

    /// Opens an operation on one member.
    pub(crate) async fn member_op(
        &self,
        definition: &'static Definition,
        id: MemberId,
        input: Value,
    ) -> OperationId {
        self.member_op_with(definition, id, input, false).await
    }

    /// Requests one more unit.
    pub(crate) async fn add(&self, id: InstanceId) -> (MemberId, OperationId) {
        self.add_to(id, "unit").await
    }

    /// Requests one more member of a component.
    pub(crate) async fn add_to(&self, id: InstanceId, key: &str) -> (MemberId, OperationId) {
        let instance = self.app_instance(id).await;
        let mut tx = self.store.begin().await.unwrap();
        let new = self.rows(&mut tx, &instance, key, 1, 1).await.remove(0);
        let operation = self.opened_app(
            &member::ADD,
            ("member", new.id.uuid(), &new.name),
            vec![id.uuid()],
            adding(self),
        );
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        (new.id, operation.id)
    }

    /// Requests several more units in one operation.
    pub(crate) async fn add_many(&self, id: InstanceId, count: i64) -> (Vec<MemberId>, OperationId) {
        let instance = self.app_instance(id).await;
        let mut tx = self.store.begin().await.unwrap();
        let new = self.rows(&mut tx, &instance, "unit", count, count).await;
        let mut operation = self.opened_app(
            &members::ADD,
            ("instance", id.uuid(), &instance.name),
            vec![id.uuid()],
            adding(self),
        );
        operation.items = new.iter().map(item).collect();
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        (new.iter().map(|member| member.id).collect(), operation.id)
    }

    /// Opens an operation on several members.
    pub(crate) async fn members_op(
        &self,
        definition: &'static Definition,
        id: InstanceId,
        ids: &[MemberId],
    ) -> OperationId {
        let instance = self.app_instance(id).await;
        let mut named = Vec::new();
        for id in ids {
            named.push(self.member(*id).await);
        }
        let mut operation = self.opened_app(
            definition,
            ("instance", id.uuid(), &instance.name),
            vec![id.uuid()],
            json!({"force": false}),
        );
        operation.items = named.iter().map(item).collect();
        let mut tx = self.store.begin().await.unwrap();
        if definition.kind == OperationKind::MembersRemove {
            for member in named.iter().filter(|member| !member.never_worked()) {
                tx.component_change_desired(id, &member.component_key, -1, 0).await.unwrap();
            }
        }
        if definition.kind == OperationKind::MembersReplace {
            let count = i64::try_from(ids.len()).unwrap();
            let more = named.iter().filter(|member| member.never_worked()).count();
            let more = i64::try_from(more).unwrap();
            let new = self.rows(&mut tx, &instance, "unit", count, more).await;
            let successors = named.iter().zip(&new).map(|(old, new)| (old.id, new.id)).collect();
            operation.input = OperationInput { successors, ..with_new_members(self, operation.input) };
        }
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        operation.id
    }

    /// Requests an instance with this many units.
    pub(crate) async fn launch(&self, name: &str, units: i64) -> (InstanceId, OperationId) {
        self.clock.advance(SignedDuration::from_millis(1));
        let now = self.env.now();
        let (tenant_id, project_id) = (self.project.tenant_id, self.project.id);
        let mut tx = self.store.begin().await.unwrap();
        let network = tx.network_ensure(self.env.id(), tenant_id, project_id, name, now).await.unwrap();
        let new = NewInstance {
            id: self.env.id(),
            tenant_id,
            project_id,
            app_id: self.catalog.app,
            app_version_id: self.catalog.versions[0],
            operator_account_id: self.catalog.account,
            network_id: network.id,
            name: name.to_owned(),
            now,
        };
        let mut instance =
            Instance { app: "pair".to_owned(), repair: RepairMode::Off, ..Instance::requested(new) };
        let mut operation = self.opened_app(
            &instance::CREATE,
            ("instance", instance.id.uuid(), name),
            Vec::new(),
            adding(self),
        );
        instance.operation_id = Some(operation.id);
        tx.instance_request(&instance).await.unwrap();
        for key in ["hub", "unit"] {
            let component = Component {
                instance_id: instance.id,
                key: key.to_owned(),
                desired: 0,
                last_ordinal: 0,
                capacity: None,
                allocation_id: None,
            };
            tx.component_request(&component).await.unwrap();
        }
        let mut made = self.rows(&mut tx, &instance, "hub", 1, 1).await;
        made.extend(self.rows(&mut tx, &instance, "unit", units, units).await);
        operation.items = made.iter().map(item).collect();
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        (instance.id, operation.id)
    }

    /// Returns a running instance with this many units.
    pub(crate) async fn instance(&mut self, name: &str, units: i64) -> InstanceId {
        let (id, operation) = self.launch(name, units).await;
        let ended = self.drive(operation).await;
        assert_eq!(ended.state, OperationState::Succeeded, "{ended:#?}");
        assert_eq!(self.app_instance(id).await.state, InstanceState::Running);
        id
    }

    /// Opens an operation on an instance as a whole.
    pub(crate) async fn instance_op(
        &self,
        definition: &'static Definition,
        id: InstanceId,
        input: Value,
        takes_over: bool,
    ) -> OperationId {
        let instance = self.app_instance(id).await;
        let under_way = self.store.operation_open_on(id.uuid()).await.unwrap();
        let living = self.store.member_living(id).await.unwrap();
        let mut operation =
            self.opened_app(definition, ("instance", id.uuid(), &instance.name), Vec::new(), input);
        let now = self.env.now();
        let mut tx = self.store.begin().await.unwrap();
        if takes_over {
            for old in &under_way {
                assert!(supersede(&mut tx, &self.env, old, &mut operation, now).await.unwrap());
            }
        }
        operation.items = living.iter().map(item).collect();
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        operation.id
    }

    /// Adds one unit and removes another.
    pub(crate) async fn scale(&self, id: InstanceId, remove: MemberId) -> OperationId {
        let instance = self.app_instance(id).await;
        let old = self.member(remove).await;
        let mut tx = self.store.begin().await.unwrap();
        let new = self.rows(&mut tx, &instance, "unit", 1, 1).await.remove(0);
        tx.component_change_desired(id, "unit", -1, 0).await.unwrap();
        let mut input = adding(self);
        (input["add"], input["remove"]) = (json!([new.id]), json!([remove]));
        let mut operation =
            self.opened_app(&instance::SCALE, ("instance", id.uuid(), &instance.name), Vec::new(), input);
        operation.items = vec![item(&new), item(&old)];
        tx.operation_open(&operation).await.unwrap();
        tx.commit().await.unwrap();
        operation.id
    }

    /// Returns a unit with a failed bootstrap.
    pub(crate) async fn failed_unit(&mut self, id: InstanceId) -> MemberId {
        self.adapter.cannot(muster_model::adapter::AdapterVerb::Join);
        let (unit, add) = self.add(id).await;
        assert_eq!(self.drive(add).await.state, OperationState::Failed);
        assert_eq!(self.member(unit).await.state, MemberState::Failed);
        self.adapter.fails.clear();
        unit
    }

    /// Returns a unit that worked and failed, still in its allocation.
    pub(crate) async fn broken_unit(&mut self, id: InstanceId) -> MemberId {
        let (unit, add) = self.add(id).await;
        assert_eq!(self.drive(add).await.state, OperationState::Succeeded);
        let member = self.member(unit).await;
        let mut tx = self.store.begin().await.unwrap();
        let after = Member { state: MemberState::Failed, ..member.clone() };
        tx.member_move(&member, &after, self.env.now()).await.unwrap();
        tx.commit().await.unwrap();
        unit
    }
}
