//! Two tenants, three projects and every kind of actor.

use jiff::SignedDuration;
use muster_authz::Permission;
use muster_ids::{Env, TokenId, UserId};
use muster_model::token::{Secret, Subject, Token, TokenKind};
use serde_json::{Value, json};

use crate::{Client, Kit};

/// Actors of the access matrix, from anonymous to the operator.
pub const ACTORS: &[&str] = &[
    "anonymous",
    "malformed",
    "expired",
    "revoked",
    "node",
    "other_tenant_admin",
    "sibling_project_admin",
    "account_of_other_project",
    "account_without_grant",
    "account_with_grant",
    "viewer",
    "project_admin",
    "tenant_admin",
    "operator",
];

/// Ids and tokens of a test platform.
#[derive(Debug, Clone, Default)]
pub struct Fixture {
    tokens: std::collections::BTreeMap<String, String>,
    /// Ids by name.
    pub ids: std::collections::BTreeMap<String, String>,
}

impl Fixture {
    /// Builds it through the public API; only rows that the API refuses to create (an expired token) are written to the
    /// store.
    pub async fn build(kit: &Kit) -> Self {
        let mut fixture = Self::default();
        let operator = kit.operator();
        fixture.tokens.insert("operator".to_owned(), kit.operator_token.clone());
        for tenant in ["acme", "globex"] {
            let made = operator.post("/v1/tenants", json!({"slug": tenant})).await.ok();
            fixture.ids.insert(tenant.to_owned(), made.text_of("id"));
        }
        for (tenant, project) in [("acme", "train"), ("acme", "serve"), ("globex", "lab")] {
            let made =
                operator.post(&format!("/v1/tenants/{tenant}/projects"), json!({"name": project})).await.ok();
            fixture.ids.insert(project.to_owned(), made.text_of("id"));
        }
        fixture.person(kit, "tenant_admin", "acme", json!({"role": "tenant_admin", "tenant": "acme"})).await;
        fixture
            .person(kit, "other_tenant_admin", "globex", json!({"role": "tenant_admin", "tenant": "globex"}))
            .await;
        fixture
            .person(kit, "project_admin", "acme", json!({"role": "project_admin", "project": "acme.train"}))
            .await;
        fixture
            .person(
                kit,
                "sibling_project_admin",
                "acme",
                json!({"role": "project_admin", "project": "acme.serve"}),
            )
            .await;
        fixture
            .person(kit, "viewer", "acme", json!({"role": "project_viewer", "project": "acme.train"}))
            .await;
        fixture.person(kit, "bystander", "acme", Value::Null).await;
        let everything = grantable_permissions();
        fixture.account(kit, "account_with_grant", "train", &everything).await;
        fixture.account(kit, "account_without_grant", "train", &[]).await;
        fixture.account(kit, "account_of_other_project", "serve", &everything).await;
        fixture.dead_tokens(kit).await;
        fixture.tokens.insert("anonymous".to_owned(), String::new());
        fixture.tokens.insert("malformed".to_owned(), "mst_pat_not-a-token".to_owned());
        // Nodes have certificates of their own; a token with a node prefix grants no access to the public API.
        let node =
            Secret::make(TokenKind::Personal, &Env::system()).reveal().replacen("mst_pat_", "mst_node_", 1);
        fixture.tokens.insert("node".to_owned(), node);
        fixture.things(kit).await;
        kit.sealed().await;
        fixture
    }

    /// Returns an actor's token.
    pub fn token(&self, actor: &str) -> &str {
        self.tokens.get(actor).map_or("", String::as_str)
    }

    /// Returns an id by name.
    #[track_caller]
    pub fn id(&self, name: &str) -> &str {
        self.ids.get(name).unwrap_or_else(|| panic!("the fixture has no {name}"))
    }

    /// Returns a client of the first server for an actor.
    pub fn client(&self, kit: &Kit, actor: &str) -> Client {
        kit.client_of(0, self.token(actor))
    }

    /// Returns a client that can grant any role at `acme` or `globex`.
    fn giver(&self, kit: &Kit, tenant: &str) -> Client {
        let admin = if tenant == "acme" { "tenant_admin" } else { "other_tenant_admin" };
        match self.token(admin) {
            "" => kit.operator(),
            token => kit.client_of(0, token),
        }
    }

    async fn person(&mut self, kit: &Kit, name: &str, tenant: &str, binding: Value) {
        let email = format!("{name}@{tenant}.example");
        let made = kit.operator().post("/v1/users", json!({"email": email, "tenant": tenant})).await.ok();
        let id = made.text_of("id");
        if let Value::Object(mut binding) = binding {
            binding.insert("user".to_owned(), json!(email));
            let bound = self.giver(kit, tenant).post("/v1/role-bindings", Value::Object(binding)).await.ok();
            self.ids.insert(format!("{name}_binding"), bound.text_of("id"));
        }
        let secret =
            Self::token_in_store(kit, id.parse().expect("a user id"), SignedDuration::from_hours(1)).await;
        self.ids.insert(name.to_owned(), id);
        self.tokens.insert(name.to_owned(), secret.reveal().to_owned());
    }

    async fn token_in_store(kit: &Kit, user: UserId, lives: SignedDuration) -> Secret {
        let env = Env::system();
        let secret = Secret::make(TokenKind::Personal, &env);
        let now = env.now();
        let token = Token {
            id: env.id::<TokenId>(),
            kind: TokenKind::Personal,
            subject: Subject::User(user),
            name: "fixture".to_owned(),
            hint: secret.hint(),
            created_at: now,
            expires_at: now + lives,
            revoked_at: None,
            last_used_at: None,
            version: 1,
            parent_id: None,
        };
        let mut tx = kit.store().begin().await.expect("a transaction");
        tx.token_insert(&token, secret.hash()).await.expect("a token");
        tx.commit().await.expect("a commit");
        secret
    }

    async fn account(&mut self, kit: &Kit, name: &str, project: &str, permissions: &[&str]) {
        let admin = self.giver(kit, "acme");
        let path = format!("/v1/projects/{}/service-accounts", self.id(project));
        let body = json!({"name": name.replace('_', "-"), "permissions": permissions});
        let made = admin.post(&path, body).await.ok();
        let id = made.text_of("id");
        let token = admin.post("/v1/tokens", json!({"service_account": id, "name": "fixture"})).await.ok();
        self.tokens.insert(name.to_owned(), token.text_of("secret"));
        self.ids.insert(format!("{name}_token"), token.text_of("id"));
        self.ids.insert(name.to_owned(), id);
    }

    async fn dead_tokens(&mut self, kit: &Kit) {
        let admin: UserId = self.id("tenant_admin").parse().expect("a user id");
        let expired = Self::token_in_store(kit, admin, SignedDuration::from_secs(-1)).await;
        self.tokens.insert("expired".to_owned(), expired.reveal().to_owned());
        let client = self.client(kit, "tenant_admin");
        let doomed = client.post("/v1/tokens", json!({"name": "doomed"})).await.ok();
        self.tokens.insert("revoked".to_owned(), doomed.text_of("secret"));
        client.post(&format!("/v1/tokens/{}/revoke", doomed.text_of("id")), json!({})).await.ok();
    }

    /// Creates resources to act on: a webhook and a personal token.
    async fn things(&mut self, kit: &Kit) {
        let admin = self.client(kit, "tenant_admin");
        let hook = json!({"name": "hook", "project": self.id("train"), "url": "http://127.0.0.1:9/"});
        let made = admin.post("/v1/webhooks", hook).await.ok();
        self.ids.insert("hook".to_owned(), made.text_of("id"));
        let bystander = self.client(kit, "bystander");
        let token = bystander.post("/v1/tokens", json!({"name": "mine"})).await.ok();
        self.ids.insert("bystander_token".to_owned(), token.text_of("id"));
    }
}

/// Returns every permission that an allow list can contain.
fn grantable_permissions() -> Vec<&'static str> {
    let grantable = Permission::ALL.iter().filter(|permission| permission.allowable());
    grantable.map(|permission| permission.as_str()).collect()
}
