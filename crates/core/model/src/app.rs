//! Apps: catalog entries, their releases, and entitlements to launch them.

use jiff::Timestamp;
use muster_ids::{AppId, AppVersionId, EntitlementId, ProjectId, ServiceAccountId, TenantId};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::artifact::ArtifactState;
use crate::state::states;
use crate::{Labels, Scope};

states! {
    /// Visibility of an app in the catalog.
    Audience {
        /// The publishing project.
        Project = "project" => [];
        /// Every project of the publisher's tenant.
        Tenant = "tenant" => [];
        /// All tenants.
        Everyone = "everyone" => [];
    }
}

/// A catalog entry.
#[derive(Debug, Clone)]
pub struct App {
    /// Its id.
    pub id: AppId,
    /// The publisher's tenant.
    pub tenant_id: TenantId,
    /// The publisher's project.
    pub project_id: ProjectId,
    /// Name in the catalog, unique on the platform.
    pub slug: String,
    /// Display name.
    pub display_name: String,
    /// Description.
    pub description: String,
    /// Its audience.
    pub audience: Audience,
    /// Labels.
    pub labels: Labels,
    /// Creation time.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl App {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A release of an app. Immutable except for its promotion state.
#[derive(Debug, Clone)]
pub struct AppVersion {
    /// Its id.
    pub id: AppVersionId,
    /// The publisher's tenant.
    pub tenant_id: TenantId,
    /// The publisher's project.
    pub project_id: ProjectId,
    /// The app.
    pub app_id: AppId,
    /// Name, unique within the app.
    pub name: String,
    /// The manifest, as published.
    pub manifest: Value,
    /// Digest of the manifest.
    pub digest: String,
    /// Promotion state, with the states of artifacts, and never ahead of its own artifacts.
    pub state: ArtifactState,
    /// Percentage of starts that get the canary.
    pub canary_percent: Option<i64>,
    /// The release that superseded it.
    pub superseded_by: Option<AppVersionId>,
    /// Time from which nothing new starts from it.
    pub deprecated_at: Option<Timestamp>,
    /// When it was published.
    pub created_at: Timestamp,
    /// When its state last changed.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl AppVersion {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A project's right to launch an app, and its consent to the account of the app's adapter.
#[derive(Debug, Clone)]
pub struct Entitlement {
    /// Its id.
    pub id: EntitlementId,
    /// The consumer's tenant.
    pub tenant_id: TenantId,
    /// The consumer's project.
    pub project_id: ProjectId,
    /// The app.
    pub app_id: AppId,
    /// The publisher's project.
    pub publisher_project_id: ProjectId,
    /// Account of the app's adapter, with exactly the permissions of the manifest.
    pub operator_account_id: ServiceAccountId,
    /// Permissions of that account, as consented to.
    pub permissions: Vec<String>,
    /// Time from which nothing new starts; running instances stay operable.
    pub revoked_at: Option<Timestamp>,
    /// When it was granted.
    pub created_at: Timestamp,
    /// Time of the last change.
    pub updated_at: Timestamp,
    /// Version for `If-Match`.
    pub version: i64,
}

impl Entitlement {
    /// Returns its scope.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// Reports whether a start without a named release gets the canary: deterministic for one subject, and `percent` of a
/// hundred over many.
pub fn gets_canary(version: AppVersionId, thing: &str, percent: i64) -> bool {
    let hash =
        Sha256::new().chain_update(version.to_string()).chain_update([0]).chain_update(thing).finalize();
    let draw = u64::from_be_bytes(hash[..8].try_into().unwrap_or_default()) % 100;
    i64::try_from(draw).is_ok_and(|draw| draw < percent)
}

/// Returns the digest of a manifest's canonical text: object members sorted by name, without whitespace, so that any holder
/// of the document can compute it.
pub fn manifest_digest(manifest: &Value) -> String {
    let mut text = String::new();
    canonical(manifest, &mut text);
    format!("sha256:{}", crate::hex::encode(&Sha256::digest(text.as_bytes())))
}

fn canonical(value: &Value, text: &mut String) {
    let between = |first: &mut bool, text: &mut String| {
        if !std::mem::take(first) {
            text.push(',');
        }
    };
    match value {
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_by(|one, other| one.0.cmp(other.0));
            text.push('{');
            let mut first = true;
            for (name, value) in members {
                between(&mut first, text);
                text.push_str(&Value::from(name.as_str()).to_string());
                text.push(':');
                canonical(value, text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            let mut first = true;
            for item in items {
                between(&mut first, text);
                canonical(item, text);
            }
            text.push(']');
        }
        plain => text.push_str(&plain.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_canary_is_given_always_to_the_same_and_to_so_many_of_a_hundred() {
        let env = Env::for_tests(3);
        let version: AppVersionId = env.id();
        let given = |percent| (0..2_000).filter(|n| gets_canary(version, &n.to_string(), percent)).count();
        assert_eq!((given(0), given(100)), (0, 2_000));
        assert!((400..600).contains(&given(25)), "{}", given(25));
        // A subject that has it keeps it when the percentage rises.
        for n in 0..200 {
            assert!(!gets_canary(version, &n.to_string(), 10) || gets_canary(version, &n.to_string(), 30));
        }
    }
    #[test]
    fn a_digest_follows_what_a_document_says_and_not_how_it_is_written() {
        let one: Value =
            serde_json::from_str(r#"{"b": [1, {"d": "x", "c": null}], "a": "\u00e9\n"}"#).unwrap();
        let other: Value = serde_json::from_str(r#"{"a":"é\n","b":[1,{"c":null,"d":"x"}]}"#).unwrap();
        assert_eq!(manifest_digest(&one), manifest_digest(&other));
        // Computed by hand: the digest of the text itself.
        let text = r#"{"a":"é\n","b":[1,{"c":null,"d":"x"}]}"#;
        let said = format!("sha256:{}", crate::hex::encode(&Sha256::digest(text.as_bytes())));
        assert_eq!(manifest_digest(&one), said);
        for different in
            [json!({"a": "é\n", "b": [{"c": null, "d": "x"}, 1]}), json!({"a": "é\n"}), json!(null)]
        {
            assert_ne!(manifest_digest(&different), said, "{different}");
        }
    }
}
