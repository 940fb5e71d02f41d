//! The commands of the public API over the rig's database and clock: authorization, validation and the command pipeline are
//! those of the server.

use std::sync::Arc;

use jiff::SignedDuration;
use muster_control::Error;
use muster_control::audit::AuditKey;
use muster_control::{
    AnswerSlot, Authenticated, Command, Cx, Expected, Keys, Options, Platform, PreparedCommand, allocation,
    execute, first_start, instance, member, node, operation,
};
use muster_ids::{Env, InstanceId};
use muster_keys::RootKeys;
use muster_model::token::{Secret, Subject, Token, TokenKind};
use muster_model::{Labels, Login, Role, RoleBinding, Scope, User};
use muster_registry::Blobs;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::rig::Rig;

/// The rig's project.
const PROJECT: &str = "acme.train";

/// The two roles that take decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Actor {
    Tenant,
    Operator,
}

/// A server's commands.
pub(crate) struct Desk {
    platform: Arc<Platform>,
    tenant: Arc<Authenticated>,
    operator: Arc<Authenticated>,
}

impl Desk {
    pub(crate) async fn new(rig: &Rig) -> Self {
        let (folder, env) = (rig.database.folder().join("desk"), rig.env.clone());
        std::fs::create_dir_all(&folder).unwrap();
        let keys = Keys {
            root: RootKeys::open(&folder.join("root.key"), true, &env).unwrap(),
            audit: AuditKey::open(&folder.join("audit.key")).unwrap(),
        };
        let blobs = Blobs::open(folder.join("registry"), env.clone()).await.unwrap();
        let options = Options { timing: *rig.engine.timing(), ..Options::default() };
        let platform = Platform::new(env.clone(), rig.store.clone(), blobs, keys, options);
        let first = first_start(&platform, |_| Ok(())).await.unwrap().unwrap();
        let tenant = tenant_admin(rig, &env).await;
        let actor = async |secret: &Secret| platform.authenticate(secret.reveal(), env.now()).await.unwrap();
        Self { tenant: actor(&tenant).await, operator: actor(&first.operator_token).await, platform }
    }

    fn cx(&self, role: Actor) -> Cx {
        let actor = match role {
            Actor::Tenant => &self.tenant,
            Actor::Operator => &self.operator,
        };
        Cx {
            platform: self.platform.clone(),
            actor: Some(actor.clone()),
            correlation_id: "walk".to_owned(),
            now: self.platform.env.now(),
            // Only updates of a row need it.
            if_match: Some(Expected::Any),
            address: None,
            answer_slot: AnswerSlot::default(),
        }
    }

    /// Executes a command on an instance, a node, an allocation or an operation; returns the response.
    pub(crate) async fn order(
        &self,
        role: Actor,
        action: &str,
        target: &str,
        body: Value,
    ) -> Result<Value, Error> {
        let cx = self.cx(role);
        let prepared = prepare(&cx, action, target, body).await;
        let command = Command {
            action: action.to_owned(),
            route: format!("{action} {target}"),
            key: None,
            request_hash: [0; 32],
            status: 202,
        };
        execute(&cx, &command, prepared).await.map(|reply| reply.body)
    }

    /// Assesses the health of an instance, as the server does when it gets a report and when one is outdated.
    pub(crate) async fn assess(&self, id: InstanceId) {
        self.platform.assess_all(&[id]).await;
    }
}

async fn prepare(cx: &Cx, action: &str, target: &str, body: Value) -> Result<PreparedCommand, Error> {
    match action {
        "instance.create" => instance::create(cx, PROJECT, parse(body)).await,
        "instance.scale" => instance::scale(cx, PROJECT, target, parse(body)).await,
        "instance.upgrade" => instance::upgrade(cx, PROJECT, target, parse(body)).await,
        "instance.apply" => instance::apply(cx, PROJECT, parse(body)).await,
        "instance.update" => instance::update(cx, PROJECT, target, parse(body)).await,
        "instance.rollback" => instance::rollback(cx, PROJECT, target, parse(body)).await,
        "instance.decommission" => instance::decommission(cx, PROJECT, target, parse(body)).await,
        "member.add" => member::add(cx, PROJECT, target, parse(body)).await,
        "member.drain" => member::drain(cx, PROJECT, target, parse(body)).await,
        "member.resume" => member::resume(cx, PROJECT, target, parse(body)).await,
        "member.remove" => member::remove(cx, PROJECT, target, parse(body)).await,
        "member.replace" => member::replace(cx, PROJECT, target, parse(body)).await,
        "member.recover" => member::recover(cx, PROJECT, target, parse(body)).await,
        "node.drain" => node::drain(cx, target, parse(body)).await,
        "node.uncordon" => node::uncordon(cx, target, parse(body)).await,
        "allocation.release" => allocation::release(cx, PROJECT, target, parse(body)).await,
        "allocation.restart" => allocation::restart(cx, PROJECT, target, parse(body)).await,
        "allocation.resize" => allocation::resize(cx, PROJECT, target, parse(body)).await,
        "allocation.attest" => allocation::attest(cx, PROJECT, target, parse(body)).await,
        "operation.resolve" => operation::resolve(cx, target, parse(body)).await,
        "operation.cancel" => operation::cancel(cx, target, parse(body)).await,
        other => panic!("no command is called {other}"),
    }
}

fn parse<T: DeserializeOwned>(body: Value) -> T {
    serde_json::from_value(body.clone()).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Adds an admin of the rig's tenant; returns its token.
async fn tenant_admin(rig: &Rig, env: &Env) -> Secret {
    let (now, tenant) = (env.now(), rig.project.tenant_id);
    let user = User {
        id: env.id(),
        tenant_id: Some(tenant),
        email: "ada@acme.example".to_owned(),
        login: Some(Login { name: "ada".to_owned(), uid: 100_000 }),
        display_name: "Ada".to_owned(),
        password_hash: None,
        disabled: false,
        labels: Labels::new(),
        created_at: now,
        updated_at: now,
        version: 1,
    };
    let binding = RoleBinding {
        id: env.id(),
        user_id: user.id,
        user_email: user.email.clone(),
        role: Role::TenantAdmin,
        scope: Scope::Tenant(tenant),
        created_at: now,
    };
    let secret = Secret::make(TokenKind::Personal, env);
    let token = Token {
        id: env.id(),
        kind: TokenKind::Personal,
        subject: Subject::User(user.id),
        name: "test".to_owned(),
        hint: secret.hint(),
        created_at: now,
        expires_at: now + SignedDuration::from_hours(24 * 365),
        revoked_at: None,
        last_used_at: None,
        version: 1,
        parent_id: None,
    };
    let mut tx = rig.store.begin().await.unwrap();
    tx.user_insert(&user).await.unwrap();
    tx.role_binding_insert(&binding).await.unwrap();
    tx.token_insert(&token, secret.hash()).await.unwrap();
    tx.commit().await.unwrap();
    secret
}
