//! Instances and members over HTTP, on real databases: the real agent with its simulated driver creates the cells, and
//! the test is the adapter, either a good one that completes every step or one controlled by the test.

mod cascade;
mod drains;
mod exits;
mod health;
mod life;
pub(crate) mod made;
mod orders;
mod quorum;
mod refusals;
mod releases;
mod repairs;
mod restarts;
mod room;
mod timeline;
mod trust;
mod without_adapter;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::SignedDuration;
use muster_agent_sim::Odds;
use muster_ids::{Env, ServiceAccountId, TokenId};
use muster_model::token::{Secret, Subject, Token, TokenKind};
use muster_testkit::{Answer, Client, Database, Kit};
use serde_json::{Value, json};

use crate::cell::{Nodes, Scene, until};

/// Manifest of a release of the app `pool`: one head, and workers with a majority quorum.
pub(crate) fn pool(version: &str) -> Value {
    let component = |key: &str, min: i64, default: i64, order: i64| {
        json!({
            "key": key, "count": {"min": min, "max": 6, "default": default}, "update_order": order,
            "capacity": {"cpus": 1, "memory_mb": 256, "disk_mb": 64}, "reach": "routed",
            "runtime": {"root": {"host": ["/usr"]},
                        "services": [{"name": "main", "command": ["/bin/sleep", "1000"]}],
                        "ports": [{"name": "rpc", "port": 7000}]},
            "witnesses": {"active": [{"in": "self", "exec": ["/bin/true"], "within": "30s"}],
                          "drained": [{"in": "self", "exec": ["/bin/true"], "within": "30s"}]},
        })
    };
    let mut workers = component("worker", 0, 1, 1);
    workers["quorum"] = json!("majority");
    json!({
        "app": "pool", "version": version, "artifact_kind": "controller",
        "compatibility": {"requires_capacity_shape": ["gpu_slice"]},
        "components": [component("head", 1, 1, 0), workers],
        "config_schema": {"type": "object", "properties": {"partitions": {"type": "integer", "minimum": 1}, "title": {"type": "string"},
                                         "key": {"type": "string", "format": "muster-secret"}},
                          "additionalProperties": false},
        "permissions": ["member.add", "runtime_secret.issue", "runtime_secret.list", "runtime_secret.get", "runtime_secret.cluster_bootstrap"],
        "operations": ["add", "drain", "resume", "remove", "replace", "recover"],
        "reconcile_seconds": 3600,
    })
}

/// A platform with nodes, an app, and the account that operates it in `acme.train`.
pub(crate) struct Stage {
    pub(crate) scene: Scene,
    pub(crate) nodes: Nodes,
    /// Client of the operating account.
    pub(crate) operator: Client,
}

impl Stage {
    pub(crate) async fn new(database: Database) -> Self {
        Self::with(Scene::new(database, 1).await, Odds::default()).await
    }

    /// The same on this platform, with nodes that have these faults.
    pub(crate) async fn with(scene: Scene, odds: Odds) -> Self {
        let nodes = Nodes::with(&scene, &["one", "two"], odds).await;
        let app = json!({"slug": "pool", "display_name": "Pool", "audience": "everyone"});
        scene.admin.post(&format!("{}/apps", scene.base), app).await.ok();
        publish(&scene, "1").await;
        let operator = entitle(&scene, "pool").await;
        Self { scene, nodes, operator }
    }

    pub(crate) fn at(&self, rest: &str) -> String {
        format!("{}/{rest}", self.scene.base)
    }

    pub(crate) async fn get(&self, rest: &str) -> Value {
        self.scene.admin.get(&self.at(rest)).await.ok().body
    }

    pub(crate) async fn post(&self, rest: &str, body: Value) -> Answer {
        self.scene.admin.post(&self.at(rest), body).await
    }

    /// Sends an action on members of the instance `farm`.
    pub(crate) async fn order(&self, verb: &str, body: Value) -> Answer {
        self.post(&format!("app-instances/farm/member-operations/{verb}"), body).await
    }

    /// Returns the running instance `farm` with this many workers, started by a good adapter.
    pub(crate) async fn running(&self, workers: i64) -> Value {
        let adapter = Good::start(self);
        let body = json!({"name": "farm", "app": "pool", "app_version": "1",
                          "components": [{"component_key": "worker", "count": workers}]});
        self.scene.done(self.post("app-instances", body).await).await;
        adapter.stop().await;
        self.get("app-instances/farm").await
    }

    pub(crate) async fn members(&self) -> Vec<Value> {
        let page = self.get("app-instances/farm/members?page_size=200").await;
        page["items"].as_array().unwrap().clone()
    }

    pub(crate) async fn member(&self, name: &str) -> Value {
        self.get(&format!("app-instances/farm/members/{name}")).await
    }

    /// Leases steps.
    pub(crate) async fn lease(&self, wait_seconds: u64) -> Vec<Value> {
        let leased = self.operator.post(&self.at("adapter-steps/lease"), wish(wait_seconds)).await.ok();
        leased.body["steps"].as_array().unwrap().clone()
    }

    /// Sends a report on a step, with a generation.
    pub(crate) async fn say(&self, step: &Value, verb: &str, generation: i64, mut body: Value) -> Answer {
        body["generation"] = json!(generation);
        let id = step["step"]["id"].as_str().unwrap();
        self.operator.post(&self.at(&format!("adapter-steps/{id}/{verb}")), body).await
    }

    /// Completes the adapter's steps, except joins, which fail, until `done`.
    pub(crate) async fn fail_joins(&self, done: impl AsyncFn() -> bool) {
        until("the adapter's part is done", async || {
            for step in self.lease(0).await {
                let generation = step["step"]["generation"].as_i64().unwrap();
                let (verb, body) = match step["step"]["verb"].as_str() {
                    Some("join") => ("fail", json!({"reason": "refuses", "message": "it cannot"})),
                    _ => ("complete", json!({"message": "done"})),
                };
                self.say(&step, verb, generation, body).await;
            }
            done().await
        })
        .await;
    }

    /// Sets the repair mode of the instance `farm`.
    pub(crate) async fn set_repair(&self, mode: &str) {
        let request = self.scene.admin.request(reqwest::Method::PATCH, &self.at("app-instances/farm"));
        self.scene.admin.send(request.header("if-match", "*").json(&json!({"repair": mode}))).await.ok();
    }

    pub(crate) async fn stop(self) {
        crate::cell::stop(self.scene, self.nodes).await;
    }
}

/// Body of an adapter's lease request.
pub(crate) fn wish(wait_seconds: u64) -> Value {
    json!({"adapter": {"name": "test", "version": "1.0", "contract": 1}, "wait_seconds": wait_seconds})
}

/// Publishes a release that can be started.
pub(crate) async fn publish(scene: &Scene, version: &str) {
    publish_as(scene, version, pool(version)).await;
}

/// The same, with this manifest.
pub(crate) async fn publish_as(scene: &Scene, version: &str, manifest: Value) {
    let path = format!("{}/apps/pool/versions", scene.base);
    scene.admin.post(&path, json!({"manifest": manifest})).await.ok();
    let step = json!({"to": "staged", "reason": "a test"});
    scene.admin.post(&format!("{path}/{version}/promote"), step).await.ok();
}

/// Grants an app to the project; returns a client of its operating account.
pub(crate) async fn entitle(scene: &Scene, app: &str) -> Client {
    let path = format!("{}/entitlements", scene.base);
    let asked = scene.admin.post(&path, json!({"app": app, "dry_run": true})).await.ok().body;
    let granted = scene.admin.post(&path, json!({"app": app, "consent": asked["permissions"]})).await.ok();
    let account = granted.body["entitlement"]["operator_account_id"].as_str().unwrap().parse().unwrap();
    speaks_for(&scene.kit, account).await
}

/// Returns a client of an account, with a token created directly in the database.
pub(crate) async fn speaks_for(kit: &Kit, account: ServiceAccountId) -> Client {
    kit.client_of(0, &token_of(kit, account).await)
}

/// Creates a token of an account directly in the database.
pub(crate) async fn token_of(kit: &Kit, account: ServiceAccountId) -> String {
    let env = Env::system();
    let secret = Secret::make(TokenKind::ServiceAccount, &env);
    let token = Token {
        id: env.id::<TokenId>(),
        kind: TokenKind::ServiceAccount,
        subject: Subject::ServiceAccount(account),
        name: "test".to_owned(),
        hint: secret.hint(),
        created_at: env.now(),
        expires_at: env.now() + SignedDuration::from_hours(1),
        revoked_at: None,
        last_used_at: None,
        version: 1,
        parent_id: None,
    };
    let mut tx = kit.store().begin().await.unwrap();
    tx.token_insert(&token, secret.hash()).await.unwrap();
    tx.commit().await.unwrap();
    secret.reveal().to_owned()
}

/// An adapter that immediately completes every step.
pub(crate) struct Good {
    over: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<()>,
}

impl Good {
    pub(crate) fn start(stage: &Stage) -> Self {
        let (over, operator, base) =
            (Arc::new(AtomicBool::new(false)), stage.operator.clone(), stage.at("adapter-steps"));
        let stop = over.clone();
        let task = tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let leased = operator.post(&format!("{base}/lease"), wish(1)).await;
                for step in leased.body["steps"].as_array().into_iter().flatten() {
                    let id = step["step"]["id"].as_str().unwrap();
                    let done = json!({"generation": step["step"]["generation"], "message": "done"});
                    operator.post(&format!("{base}/{id}/complete"), done).await;
                }
            }
        });
        Self { over, task }
    }

    pub(crate) async fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
    }
}
