//! Secrets over HTTP: stored and never shown, issued and shown once, refused without being repeated. Their delivery to
//! nodes is tested with the cells.

mod issued;
mod kept;
mod silence;

use muster_testkit::{Client, Fixture, Kit};
use serde_json::json;

/// Returns a service account of the project `acme.train` with these permissions.
pub(crate) async fn account(kit: &Kit, fixture: &Fixture, name: &str, permissions: &[&str]) -> Client {
    let admin = fixture.client(kit, "project_admin");
    let path = format!("/v1/projects/{}/service-accounts", fixture.id("train"));
    let made = admin.post(&path, json!({"name": name, "permissions": permissions})).await.ok();
    let token = json!({"service_account": made.text_of("id"), "name": "test"});
    let token = admin.post("/v1/tokens", token).await.ok().text_of("secret");
    kit.client_of(0, &token)
}

/// Returns an account that may issue every kind of secret.
pub(crate) async fn issuer(kit: &Kit, fixture: &Fixture) -> Client {
    let purposes =
        ["runtime_secret.issue", "runtime_secret.artifact_pull", "runtime_secret.cluster_bootstrap"];
    account(kit, fixture, "issuer", &purposes).await
}

/// Creates the repository `base` of the project `acme.train` with an artifact, as a push would.
pub(crate) async fn pushed(kit: &Kit) {
    let bytes = if kit.store().kind() == "sqlite" { "x''" } else { "''" };
    let manifest = format!(
        "INSERT INTO manifests (repository_id, digest, media_type, annotations, content, total_size, created_at)
         SELECT id, 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 'm', '{{}}', {bytes}, 0, created_at FROM repositories WHERE name = 'base'"
    );
    for statement in [
        "INSERT INTO repositories (id, tenant_id, project_id, name, created_at, version)
         SELECT '01900000-0000-7000-9000-000000000001', tenant_id, id, 'base', created_at, 1 FROM projects WHERE name = 'train'",
        String::leak(manifest),
        "INSERT INTO artifacts (id, tenant_id, project_id, repository_id, digest, kind, media_type, size, line, state, labels,
            created_at, updated_at, version)
         SELECT '01900000-0000-7000-9000-000000000002', tenant_id, project_id, id, 'sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 'oci', 'm', 0, 'main', 'draft', '{}',
            created_at, created_at, 1 FROM repositories WHERE name = 'base'",
    ] {
        kit.store().sabotage(statement).await.unwrap();
    }
}
