//! The access matrix: every endpoint of the document, by every actor, over real HTTP. The result is a golden file, so
//! that a policy change shows up as a diff in review.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use muster_api::{Endpoint, endpoints};
use muster_ids::NodeId;
use muster_model::allocation::Allocation;
use muster_testkit::{ACTORS, Client, Database, Fixture, Kit, golden};
use serde_json::{Value, json};

use crate::fleet_api::{inventory, machine};
use crate::registry::{Image, Remote};
use crate::resource;

/// Returns the request to try an endpoint with: path parameters, query and body. Targets belong to the tenant `acme` and
/// its project `train`, so that "inside" and "outside" mean the same in every row. An endpoint that is not in this list
/// fails the test.
fn attempt(operation: &Endpoint, fixture: &Fixture) -> (Vec<String>, String, Value) {
    let id = |name: &str| fixture.id(name).to_owned();
    let none = Value::Null;
    let train = id("train");
    match operation.id {
        "whoami" | "status_get" => (vec![], String::new(), none),
        "can_i" => (vec![], format!("permission=project.get&project={train}"), none),
        "session_create" => {
            // A different e-mail address each time: attempts per address are rate-limited.
            static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let email =
                format!("nobody{}@acme.example", NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
            (vec![], String::new(), json!({"method": "password", "email": email, "password": "wrong"}))
        }
        "session_delete" => (vec![], String::new(), json!({})),
        "tenant_create" => (vec![], String::new(), json!({"slug": "fresh"})),
        "tenant_list" => (vec![], String::new(), none),
        "tenant_get" => (vec![id("acme")], String::new(), none),
        "tenant_update" => (vec![id("acme")], String::new(), json!({"display_name": "x"})),
        "tenant_delete" => (vec![id("acme")], "cascade=true".to_owned(), none),
        "tenant_rotate_key" => (vec![id("acme")], String::new(), json!({})),
        "project_create" => (vec![id("acme")], String::new(), json!({"name": "fresh"})),
        "project_list" => (vec![], String::new(), none),
        "project_get" => (vec![train], String::new(), none),
        "project_update" => (vec![train], String::new(), json!({"display_name": "x"})),
        "project_delete" => (vec![train], "cascade=true".to_owned(), none),
        "user_create" => (vec![], String::new(), json!({"email": "fresh@acme.example", "tenant": "acme"})),
        "user_list" => (vec![], "tenant=acme".to_owned(), none),
        "user_get" => (vec![id("bystander")], String::new(), none),
        "user_update" => (vec![id("bystander")], String::new(), json!({"display_name": "x"})),
        "user_set_password" => {
            (vec![id("bystander")], String::new(), json!({"password": "a long enough one"}))
        }
        "user_delete" => (vec![id("bystander")], String::new(), none),
        "role_binding_create" => (
            vec![],
            String::new(),
            json!({"user": "bystander@acme.example", "role": "project_viewer", "project": train}),
        ),
        "role_binding_list" => (vec![], format!("project={train}"), none),
        "role_binding_get" => (vec![id("viewer_binding")], String::new(), none),
        "role_binding_delete" => (vec![id("viewer_binding")], String::new(), none),
        "service_account_create" => {
            (vec![train], String::new(), json!({"name": "fresh", "permissions": ["project.get"]}))
        }
        "service_account_list" => (vec![train], String::new(), none),
        "service_account_get" => (vec![train, id("account_without_grant")], String::new(), none),
        "service_account_update" => {
            (vec![train, id("account_without_grant")], String::new(), json!({"description": "x"}))
        }
        "service_account_delete" => (vec![train, id("account_without_grant")], String::new(), none),
        "token_issue" => {
            (vec![], String::new(), json!({"service_account": id("account_without_grant"), "name": "x"}))
        }
        "token_list" => (vec![], format!("service_account={}", id("account_without_grant")), none),
        "token_get" => (vec![id("account_without_grant_token")], String::new(), none),
        "token_rotate" => (vec![id("account_without_grant_token")], String::new(), json!({})),
        "token_revoke" => (vec![id("account_without_grant_token")], String::new(), json!({})),
        "event_list" | "event_stream" => (vec![], format!("project={train}"), none),
        "webhook_create" => {
            (vec![], String::new(), json!({"name": "fresh", "project": train, "url": "http://127.0.0.1:9/"}))
        }
        "webhook_list" => (vec![], format!("project={train}"), none),
        "webhook_get" | "webhook_deliveries" => (vec![id("hook")], String::new(), none),
        "webhook_update" => (vec![id("hook")], String::new(), json!({"enabled": false})),
        "webhook_delete" => (vec![id("hook")], String::new(), none),
        "node_enrol" => (vec![], String::new(), json!({"name": "fresh"})),
        "node_list" => (vec![], String::new(), none),
        "node_get" | "slot_list" => (vec![id("machine")], String::new(), none),
        "node_update" => (vec![id("machine")], String::new(), json!({"labels": {"rack": "7"}})),
        "node_approve" => {
            let digest = inventory("machine", 2).hardware_digest();
            (vec![id("machine")], String::new(), json!({"digest": digest}))
        }
        "node_cordon" => (vec![id("machine")], String::new(), json!({})),
        "node_uncordon" => (vec![id("cordoned_machine")], String::new(), json!({})),
        "slot_quarantine" => (vec![id("slot")], String::new(), json!({"reason": "x"})),
        "slot_approve" => (vec![id("quarantined_slot")], String::new(), json!({"reason": "x"})),
        "quota_get" | "capacity_get" => (vec![train], String::new(), none),
        "quota_set" => (vec![train], String::new(), json!({"max_gpus": 8})),
        "node_drain" => (vec![id("machine")], String::new(), json!({})),
        "node_audit" => (vec![id("machine")], String::new(), json!({})),
        "node_retire" => (vec![id("cordoned_machine")], String::new(), json!({})),
        "allocation_create" => (vec![train], String::new(), json!({"name": "fresh"})),
        "allocation_list" => (vec![train], String::new(), none),
        "allocation_get" | "allocation_timeline" => (vec![train, id("held")], String::new(), none),
        "allocation_update" => (vec![train, id("held")], String::new(), json!({"protected": true})),
        "allocation_release" | "allocation_restart" => (vec![train, id("held")], String::new(), json!({})),
        "allocation_resize" => (vec![train, id("held")], String::new(), json!({"cpus": 3})),
        "allocation_attest" => {
            (vec![train, id("held")], String::new(), json!({"statement": "its disks were shredded"}))
        }
        "cell_create" => {
            let spec = json!({"root": {"host": ["/usr"]}});
            (vec![train], String::new(), json!({"name": "fresh", "allocation": id("held"), "spec": spec}))
        }
        "cell_list" | "network_list" | "ssh_key_list" => (vec![train], String::new(), none),
        "cell_get" | "cell_archived_logs" => (vec![train, id("cell")], String::new(), none),
        "cell_restart" | "cell_destroy" => (vec![train, id("cell")], String::new(), json!({})),
        "network_get" => (vec![train, id("network")], String::new(), none),
        "ssh_key_create" => (vec![train], String::new(), json!({"name": "fresh", "public_key": OTHER_KEY})),
        "ssh_key_get" | "ssh_key_delete" => (vec![train, id("ssh_key")], String::new(), none),
        "key_create" => {
            (vec![train], String::new(), json!({"name": "fresh", "public_key": crate::key::ED25519}))
        }
        "key_list" | "trust_policy_get" | "secret_list" | "runtime_secret_list" => {
            (vec![train], String::new(), none)
        }
        "key_get" => (vec![train, id("key")], String::new(), none),
        "key_revoke" => (vec![train, id("key")], String::new(), json!({"reason": "x"})),
        "trust_policy_set" => (vec![train], String::new(), json!({"grace_hours": 1})),
        "secret_create" => (vec![train], String::new(), json!({"name": "fresh", "value": "x"})),
        "secret_get" | "secret_delete" => (vec![train, id("secret")], String::new(), none),
        "secret_rotate" => (vec![train, id("secret")], String::new(), json!({"value": "x"})),
        "runtime_secret_issue" => {
            (vec![train], String::new(), json!({"purpose": "cluster_bootstrap", "name": "fresh"}))
        }
        "runtime_secret_get" => (vec![train, id("runtime_secret")], String::new(), none),
        "runtime_secret_revoke" => (vec![train, id("runtime_secret")], String::new(), json!({})),
        "repository_list" | "artifact_list" => (vec![train], String::new(), none),
        "repository_get" | "repository_tags" => (vec![train, id("repository")], String::new(), none),
        "repository_delete" => (vec![train, id("spare_repository")], String::new(), none),
        "artifact_publish" => {
            let reference = Image::of("untagged").digest();
            (vec![train], String::new(), json!({"repository": "base", "reference": reference}))
        }
        "artifact_get" | "artifact_references" | "artifact_delete" => {
            (vec![train, id("artifact")], String::new(), none)
        }
        "artifact_verify" => (vec![train, id("artifact")], String::new(), json!({})),
        "artifact_promote" => {
            (vec![train, id("artifact")], String::new(), json!({"to": "staged", "reason": "x"}))
        }
        "artifact_demote" => {
            (vec![train, id("canary_artifact")], String::new(), json!({"to": "staged", "reason": "x"}))
        }
        "app_create" => (vec![train], String::new(), json!({"slug": "fresh", "display_name": "x"})),
        "app_list" | "entitlement_list" | "adapter_list" => (vec![train], String::new(), none),
        "app_get" | "app_compatibility" | "app_version_list" => (vec![train, id("app")], String::new(), none),
        "app_update" => (vec![train, id("app")], String::new(), json!({"description": "x"})),
        "app_delete" => (vec![train, id("spare_app")], String::new(), none),
        "app_schema" => (vec![], String::new(), none),
        "app_version_publish" => {
            let manifest = crate::catalog::manifest("matrix", "2", &[]);
            (vec![train, id("app")], String::new(), json!({"manifest": manifest}))
        }
        "app_version_get" => (vec![train, id("app"), id("app_version")], String::new(), none),
        "app_version_promote" => {
            let step = json!({"to": "active", "reason": "x"});
            (vec![train, id("app"), id("app_version")], String::new(), step)
        }
        "app_version_demote" => {
            let step = json!({"to": "staged", "reason": "x"});
            (vec![train, id("app"), id("app_version")], String::new(), step)
        }
        "entitlement_grant" => (vec![train], String::new(), json!({"app": id("app"), "dry_run": true})),
        "entitlement_get" => (vec![train, id("entitlement")], String::new(), none),
        "entitlement_revoke" => (vec![train, id("entitlement")], String::new(), json!({})),
        "operator_token_mint" => (vec![train], String::new(), json!({"entitlement": id("entitlement")})),
        "stream_create" => {
            (vec![train, id("cell")], String::new(), json!({"command": {"command": ["true"]}}))
        }
        "stream_logs" => (vec![train, id("cell")], String::new(), json!({})),
        "stream_join" => (vec![id("stream")], String::new(), none),
        "instance_create" | "instance_apply" => {
            (vec![train], String::new(), json!({"name": "fresh", "app": id("app"), "app_version": "1"}))
        }
        "instance_list" | "adapter_step_list" => (vec![train], String::new(), none),
        "instance_get"
        | "instance_endpoints"
        | "instance_event_list"
        | "instance_event_stream"
        | "member_list" => (vec![train, id("instance")], String::new(), none),
        "instance_update" => (vec![train, id("instance")], String::new(), json!({"protected": true})),
        "instance_scale" => {
            let components = json!([{"component_key": "worker", "count": 2}]);
            (vec![train, id("instance")], String::new(), json!({"components": components}))
        }
        "instance_upgrade" | "instance_rollback" | "instance_decommission" => {
            (vec![train, id("instance")], String::new(), json!({}))
        }
        "member_get" => (vec![train, id("instance"), id("member")], String::new(), none),
        "member_add" => (vec![train, id("instance")], String::new(), json!({"component_key": "worker"})),
        "member_drain" | "member_resume" | "member_remove" | "member_replace" | "member_recover" => {
            (vec![train, id("instance")], String::new(), json!({"members": [id("member")]}))
        }
        "adapter_step_lease" => {
            let adapter = json!({"name": "matrix", "version": "1", "contract": 1});
            (vec![train], String::new(), json!({"adapter": adapter}))
        }
        "adapter_step_get" => (vec![train, id("adapter_step")], String::new(), none),
        "adapter_step_heartbeat" | "adapter_step_progress" | "adapter_step_complete" => {
            (vec![train, id("adapter_step")], String::new(), json!({"generation": 1}))
        }
        "adapter_step_fail" => {
            let why = json!({"generation": 1, "reason": "broken", "message": "x"});
            (vec![train, id("adapter_step")], String::new(), why)
        }
        "adapter_task_create" => {
            let act = json!({"command": {"command": ["/bin/true"]}});
            let task = json!({"generation": 1, "key": "made", "member_id": id("member"), "act": act});
            (vec![train, id("adapter_step")], String::new(), task)
        }
        "adapter_task_get" => (vec![train, id("adapter_step"), id("adapter_task")], String::new(), none),
        "operation_list" => (vec![], format!("project={train}"), none),
        "operation_get" => (vec![id("waiting_operation")], String::new(), none),
        "operation_cancel" => (vec![id("waiting_operation")], String::new(), json!({})),
        "operation_resolve" => (vec![id("waiting_operation")], String::new(), json!({"action": "retry"})),
        "audit_list" => (vec![], format!("project={train}"), none),
        "audit_export" | "audit_head" => (vec![], "tenant=acme".to_owned(), none),
        other => resource::attempt(other, &id).unwrap_or_else(|| {
            panic!("the access matrix does not cover {other}: say in `attempt` what to try it with")
        }),
    }
}

/// Returns the method, path and body to try an endpoint with.
pub(crate) fn request_of(operation: &Endpoint, fixture: &Fixture) -> (reqwest::Method, String, Value) {
    let (parameters, query, body) = attempt(operation, fixture);
    let mut path = operation.path.to_owned();
    for (name, value) in operation.path_parameters().into_iter().zip(parameters) {
        path = path.replace(&format!("{{{name}}}"), &value);
    }
    if !query.is_empty() {
        path = format!("{path}?{query}");
    }
    (reqwest::Method::from_bytes(operation.method.as_str().as_bytes()).unwrap(), path, body)
}

/// Tries an endpoint; returns the status, the code and the body without variable parts.
pub(crate) async fn knock(client: &Client, operation: &Endpoint, fixture: &Fixture) -> (u16, String, String) {
    let (method, path, body) = request_of(operation, fixture);
    let key = format!("matrix-{}", operation.id);
    let mut request = client.request(method, &path).header("idempotency-key", key);
    if operation.if_match {
        request = request.header("if-match", "*");
    }
    if !body.is_null() {
        request = request.json(&body);
    }
    if operation.id == "stream_join" {
        request = crate::stream::upgrading(request);
    }
    if matches!(operation.id, "event_stream" | "instance_event_stream" | "stream_join") {
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        if status < 300 {
            return (status, String::new(), String::new());
        }
        let body: Value = response.json().await.unwrap();
        let stripped = without_thread(&body);
        return (status, body["code"].as_str().unwrap_or_default().to_owned(), stripped);
    }
    let answer = client.send(request).await;
    (answer.status, answer.code().to_owned(), without_thread(&answer.body))
}

fn without_thread(body: &Value) -> String {
    let mut body = body.clone();
    body["correlation_id"] = Value::Null;
    body.to_string()
}

/// Public keys without known private keys.
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA0E2h3L3HJv6cqCgJ2oHfRnvC4TfZyXh8Hbqz2yq1m7";
const OTHER_KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB0E2h3L3HJv6cqCgJ2oHfRnvC4TfZyXh8Hbqz2yq1m7";

/// A machine that accepts allocations, with one slot that does and one that does not; and a cordoned machine.
async fn add_machines(kit: &Kit, fixture: &mut Fixture) {
    let operator = kit.operator();
    let id = machine(kit, "machine", 2).await;
    let slots = kit.store().slot_list(id).await.unwrap();
    fixture.ids.insert("machine".to_owned(), id.to_string());
    fixture.ids.insert("slot".to_owned(), slots[0].id.to_string());
    fixture.ids.insert("quarantined_slot".to_owned(), slots[1].id.to_string());
    operator.post(&format!("/v1/slots/{}/quarantine", slots[1].id), json!({"reason": "x"})).await.ok();
    let cordoned = machine(kit, "cordoned", 1).await;
    operator.post(&format!("/v1/nodes/{cordoned}/cordon"), json!({})).await.ok();
    fixture.ids.insert("cordoned_machine".to_owned(), cordoned.to_string());
    kit.sealed().await;
}

/// A publisher key, a secret, and an issued runtime secret.
async fn add_secrets(kit: &Kit, fixture: &mut Fixture) {
    let project = format!("/v1/projects/{}", fixture.id("train"));
    let admin = fixture.client(kit, "tenant_admin");
    let key = json!({"name": "build", "public_key": crate::key::P256});
    let key = admin.post(&format!("{project}/keys"), key).await.ok().text_of("id");
    let secret = json!({"name": "token", "value": "x"});
    let secret = admin.post(&format!("{project}/secrets"), secret).await.ok().text_of("id");
    let issued = json!({"purpose": "cluster_bootstrap", "name": "gossip"});
    let account = fixture.client(kit, "account_with_grant");
    let issued = account.post(&format!("{project}/runtime-secrets"), issued).await.ok().text_of("id");
    for (name, id) in [("key", key), ("secret", secret), ("runtime_secret", issued)] {
        fixture.ids.insert(name.to_owned(), id);
    }
    kit.sealed().await;
}

/// An allocation that is active according to the database, and a queued operation. On a platform of its own: a project
/// that holds allocations cannot be removed.
async fn add_allocations(kit: &Kit, fixture: &mut Fixture) {
    let admin = fixture.client(kit, "tenant_admin");
    let train = fixture.id("train").to_owned();
    // The machine sends no heartbeat, so that there is something to wait for.
    let machine: NodeId = fixture.id("machine").parse().unwrap();
    kit.store().heartbeat_write(&[machine], &[], jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    let ask = json!({"name": "waiting", "gpus": 1, "wait_until": "2199-01-01T00:00:00Z"});
    let started = admin.post(&format!("/v1/projects/{train}/allocations"), ask).await.ok();
    let operation = started.body["operation"]["id"].as_str().unwrap().to_owned();
    fixture.ids.insert("waiting_operation".to_owned(), operation);
    let held = crate::allocation::active(kit, &train, "held").await;
    fixture.ids.insert("held".to_owned(), held.to_string());
    let store = kit.store();
    let before = store.allocation_lookup(held).await.unwrap().unwrap();
    let after = Allocation { node_id: Some(machine), ..before.clone() };
    let mut tx = store.begin().await.unwrap();
    tx.allocation_move(&before, &after, before.updated_at).await.unwrap();
    tx.commit().await.unwrap();
    let cell = crate::stream::cell(store, &train, machine, "cell").await;
    fixture.ids.insert("cell".to_owned(), cell.to_string());
    let stream = crate::stream::granted(store, cell, fixture.id("project_admin")).await;
    fixture.ids.insert("stream".to_owned(), stream.to_string());
    let networks = store.network_list(train.parse().unwrap()).await.unwrap();
    fixture.ids.insert("network".to_owned(), networks[0].id.to_string());
    let key = json!({"name": "laptop", "public_key": KEY});
    let key = admin.post(&format!("/v1/projects/{train}/ssh-keys"), key).await.ok();
    fixture.ids.insert("ssh_key".to_owned(), key.body["id"].as_str().unwrap().to_owned());
    kit.sealed().await;
}

/// A repository with a draft, a canary and an unpublished manifest; and one that can be removed.
async fn add_artifacts(kit: &Kit, fixture: &mut Fixture) {
    let project = format!("/v1/projects/{}", fixture.id("train"));
    let admin = fixture.client(kit, "tenant_admin");
    admin.patch(&format!("{project}/trust-policy"), json!({"unsigned_up_to": "canary"})).await.ok();
    let remote = Remote::new(kit, 0, fixture.token("tenant_admin"), "acme.train/base");
    let untagged = Image::of("untagged");
    remote.push(&untagged.digest(), &untagged).await.is(201);
    remote.push("draft", &Image::of("draft")).await.is(201);
    remote.push("canary", &Image::of("canary")).await.is(201);
    remote.named("acme.train/spare").push("draft", &Image::of("draft")).await.is(201);
    for to in ["staged", "canary"] {
        let path = format!("{project}/artifacts/base:canary/promote");
        admin.post(&path, json!({"to": to, "reason": "x"})).await.ok();
    }
    for (name, path) in [
        ("repository", "repositories/base"),
        ("spare_repository", "repositories/spare"),
        ("artifact", "artifacts/base:draft"),
        ("canary_artifact", "artifacts/base:canary"),
    ] {
        let id = admin.get(&format!("{project}/{path}")).await.ok().text_of("id");
        fixture.ids.insert(name.to_owned(), id);
    }
    kit.sealed().await;
}

/// An app with a canary that the project itself may launch, and one that can be removed.
async fn add_apps(kit: &Kit, fixture: &mut Fixture) {
    let project = format!("/v1/projects/{}", fixture.id("train"));
    let admin = fixture.client(kit, "tenant_admin");
    let made = async |slug: &str| {
        let body = json!({"slug": slug, "display_name": slug});
        admin.post(&format!("{project}/apps"), body).await.ok().text_of("id")
    };
    let (app, spare) = (made("matrix").await, made("spare").await);
    let manifest = json!({"manifest": crate::catalog::manifest("matrix", "1", &[])});
    let released = admin.post(&format!("{project}/apps/matrix/versions"), manifest).await.ok();
    let version = released.body["app_version"]["id"].as_str().unwrap().to_owned();
    for to in ["staged", "canary"] {
        let path = format!("{project}/apps/matrix/versions/1/promote");
        admin.post(&path, json!({"to": to, "reason": "x"})).await.ok();
    }
    let entitlements = format!("{project}/entitlements");
    let asked = admin.post(&entitlements, json!({"app": "matrix", "dry_run": true})).await.ok();
    let consent = json!({"app": "matrix", "consent": asked.body["permissions"]});
    let granted = admin.post(&entitlements, consent).await.ok();
    let entitlement = granted.body["entitlement"]["id"].as_str().unwrap().to_owned();
    for (name, id) in
        [("app", app), ("spare_app", spare), ("app_version", version), ("entitlement", entitlement)]
    {
        fixture.ids.insert(name.to_owned(), id);
    }
    kit.sealed().await;
}

/// Starts a server on a copy of the template: each successful attempt may change it without affecting the next.
pub(crate) async fn copy_of(template: &Database) -> Kit {
    Kit::start(template.copy(), 1).await
}

/// Template platforms; every server starts on a copy of one.
pub(crate) struct Templates {
    /// Tenants, people, machines and secrets. A project without allocations can be removed.
    bare: Arc<Database>,
    /// The same with allocations, artifacts, apps and an instance.
    pub(crate) holding: Arc<Database>,
}

/// Nouns about workloads. The other endpoints are tried on the platform without any.
const ABOUT_WORK: &[&str] = &[
    "allocation_",
    "operation_",
    "cell_",
    "network_",
    "ssh_key_",
    "stream_",
    "repository_",
    "artifact_",
    "app_",
    "entitlement_",
    "operator_token_",
    "instance_",
    "member_",
    "adapter_",
];

impl Templates {
    pub(crate) async fn build(database: Database) -> (Self, Fixture) {
        let kit = Kit::start(database, 1).await;
        let mut fixture = Fixture::build(&kit).await;
        add_machines(&kit, &mut fixture).await;
        add_secrets(&kit, &mut fixture).await;
        resource::add_all(&kit, &mut fixture).await;
        let bare = kit.database.clone();
        kit.stop().await;
        let kit = copy_of(&bare).await;
        add_allocations(&kit, &mut fixture).await;
        add_artifacts(&kit, &mut fixture).await;
        add_apps(&kit, &mut fixture).await;
        crate::instance::made::made(&kit, &mut fixture).await;
        let holding = kit.database.clone();
        kit.stop().await;
        (Self { bare, holding }, fixture)
    }

    pub(crate) fn of(&self, operation: &Endpoint) -> &Arc<Database> {
        let about_work = ABOUT_WORK.iter().any(|noun| operation.id.starts_with(noun));
        if about_work { &self.holding } else { &self.bare }
    }
}

/// Maximum time attempts share a server. The platform runs its own timers: a machine without a heartbeat becomes
/// unreachable after a while, and then the responses differ.
const SHARED_FOR: Duration = Duration::from_secs(4);

/// A server that attempts share until one of them changes something.
struct SharedServer {
    template: Arc<Database>,
    kit: Kit,
    started: Instant,
}

impl SharedServer {
    async fn start(template: &Arc<Database>) -> Self {
        let kit = copy_of(template).await;
        Self { template: template.clone(), kit, started: Instant::now() }
    }

    fn fits(&self, template: &Arc<Database>) -> bool {
        Arc::ptr_eq(&self.template, template) && self.started.elapsed() < SHARED_FOR
    }
}

/// Results of a part of the matrix.
#[derive(Default)]
struct Findings {
    /// Rows, by endpoint.
    rows: BTreeMap<&'static str, String>,
    /// Kinds of responses.
    codes: BTreeSet<String>,
    /// Bodies of 404 responses, by endpoint and actor.
    bodies_of_absent: BTreeMap<(&'static str, &'static str), String>,
}

/// Tries these endpoints sequentially, as every actor. Refused attempts and reads share a server.
async fn try_all(operations: Vec<Endpoint>, templates: Arc<Templates>, fixture: Fixture) -> Findings {
    let mut found = Findings::default();
    let mut server: Option<SharedServer> = None;
    for operation in operations {
        let template = templates.of(&operation);
        let mut row = String::new();
        for actor in ACTORS {
            let fresh = match server.take() {
                Some(server) if server.fits(template) => server,
                old => {
                    if let Some(old) = old {
                        old.kit.stop().await;
                    }
                    SharedServer::start(template).await
                }
            };
            let client = fresh.kit.client_of(0, fixture.token(actor));
            let (status, code, body) = knock(&client, &operation, &fixture).await;
            let cell = if status < 300 { "yes".to_owned() } else { status.to_string() };
            found.codes.insert(format!("{status} {code}"));
            row.push_str(&format!(" {cell:>width$}", width = actor.len()));
            if status == 404 {
                found.bodies_of_absent.insert((operation.id, actor), body);
            }
            if status < 300 && operation.kind != muster_api::Kind::Read {
                fresh.kit.stop().await;
            } else {
                server = Some(fresh);
            }
        }
        found.rows.insert(operation.id, row);
    }
    if let Some(server) = server {
        server.kit.stop().await;
    }
    found
}

/// Splits the endpoints into parts that can run in parallel: those of one noun stay together.
fn parts(count: usize) -> Vec<Vec<Endpoint>> {
    let mut parts: Vec<Vec<Endpoint>> = (0..count).map(|_| Vec::new()).collect();
    let mut nouns: BTreeMap<&str, Vec<Endpoint>> = BTreeMap::new();
    for operation in endpoints() {
        nouns.entry(operation.permission.split('.').next().unwrap_or_default()).or_default().push(operation);
    }
    let mut nouns: Vec<Vec<Endpoint>> = nouns.into_values().collect();
    nouns.sort_by_key(|operations| std::cmp::Reverse(operations.len()));
    for noun in nouns {
        parts.iter_mut().min_by_key(|part| part.len()).expect("there are parts").extend(noun);
    }
    parts
}

#[tokio::test(flavor = "multi_thread")]
async fn golden_access_matrix() {
    judge_matrix(Database::sqlite()).await;
}

/// The same file: permissions do not depend on the database.
#[tokio::test(flavor = "multi_thread")]
async fn golden_access_matrix_on_postgres() {
    judge_matrix(Database::postgres()).await;
}

async fn judge_matrix(database: Database) {
    let (templates, fixture) = Templates::build(database).await;
    let templates = Arc::new(templates);
    let tried =
        parts(4).into_iter().map(|part| tokio::spawn(try_all(part, templates.clone(), fixture.clone())));
    let mut found = Findings::default();
    for part in futures::future::join_all(tried).await {
        let part = part.expect("no attempt panics");
        found.rows.extend(part.rows);
        found.codes.extend(part.codes);
        found.bodies_of_absent.extend(part.bodies_of_absent);
    }
    let mut table = format!("{:24}", "operation");
    for actor in ACTORS {
        table.push_str(&format!(" {actor}"));
    }
    table.push('\n');
    for operation in endpoints() {
        table.push_str(&format!("{:24}{}\n", operation.id, found.rows[operation.id]));
    }
    table.push_str("\nanswers that were seen:\n");
    table.extend(found.codes.iter().map(|code| format!("{}\n", code.trim())));
    golden(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/output/access-matrix.txt"), &table);

    // Invisible equals absent: the body is identical to that for a resource that never existed.
    let kit = copy_of(&templates.holding).await;
    assert!(
        found.bodies_of_absent.len() > 30,
        "the matrix must meet many invisible things: {}",
        found.bodies_of_absent.len()
    );
    let all = endpoints();
    let absent = absent(&fixture);
    for ((id, actor), body) in found.bodies_of_absent {
        let operation = all.iter().find(|operation| operation.id == id).unwrap();
        let client = kit.client_of(0, fixture.token(actor));
        let (status, _, other) = knock(&client, operation, &absent).await;
        assert_eq!(
            (status, &other),
            (404, &body),
            "{id} {actor}: an absent thing is answered otherwise than an invisible one"
        );
    }
    kit.stop().await;
}

/// Returns the fixture with every id replaced by an unused one of the same kind.
fn absent(fixture: &Fixture) -> Fixture {
    let mut absent = fixture.clone();
    for id in absent.ids.values_mut() {
        let (prefix, _) = id.split_once('_').unwrap();
        *id = format!("{prefix}_01h455vb4pex5vsknk084sn02q");
    }
    absent
}
