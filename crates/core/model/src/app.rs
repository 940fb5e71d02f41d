//! Apps: what the catalog offers, the releases of each, and who may launch it.

use jiff::Timestamp;
use muster_ids::{AppId, AppVersionId, EntitlementId, ProjectId, ServiceAccountId, TenantId};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::artifact::ArtifactState;
use crate::state::states;
use crate::{Labels, Scope};

states! {
    /// Who finds an app in the catalog.
    Audience {
        /// The project that publishes it.
        Project = "project" => [];
        /// Every project of that tenant.
        Tenant = "tenant" => [];
        /// Everybody.
        Everyone = "everyone" => [];
    }
}

/// An entry of the catalog.
#[derive(Debug, Clone)]
pub struct App {
    /// Its id.
    pub id: AppId,
    /// The publisher's tenant.
    pub tenant_id: TenantId,
    /// The publisher's project.
    pub project_id: ProjectId,
    /// Its name in the catalog, of which there is one.
    pub slug: String,
    /// Its name for people.
    pub display_name: String,
    /// What it is.
    pub description: String,
    /// Who finds it.
    pub audience: Audience,
    /// Labels.
    pub labels: Labels,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl App {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A release of an app. It never changes, but for how far it may be used.
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
    /// Its name, unique within the app.
    pub name: String,
    /// The manifest, as it was published.
    pub manifest: Value,
    /// The digest of that text.
    pub digest: String,
    /// How far it may be used: in the words of artifacts, and never ahead of its own.
    pub state: ArtifactState,
    /// To how many of a hundred starts a canary is offered.
    pub canary_percent: Option<i64>,
    /// The release that took its place.
    pub superseded_by: Option<AppVersionId>,
    /// Since when nothing new starts from it.
    pub deprecated_at: Option<Timestamp>,
    /// When it was published.
    pub created_at: Timestamp,
    /// When its state last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl AppVersion {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// A project's right to launch an app, and its consent to the account under which the app's adapter works there.
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
    /// The account that was made for the app's adapter, with exactly what the manifest asks for.
    pub operator_account_id: ServiceAccountId,
    /// What that account was given, as consented to.
    pub permissions: Vec<String>,
    /// Since when it starts nothing new; what runs stays operable.
    pub revoked_at: Option<Timestamp>,
    /// When it was granted.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// For `If-Match`.
    pub version: i64,
}

impl Entitlement {
    /// Where it belongs.
    pub fn scope(&self) -> Scope {
        Scope::Project(self.tenant_id, self.project_id)
    }
}

/// Whether a start that names no release gets the canary: always the same answer for one thing, and over many things so many
/// of a hundred.
pub fn gets_canary(version: AppVersionId, thing: &str, percent: i64) -> bool {
    let hash =
        Sha256::new().chain_update(version.to_string()).chain_update([0]).chain_update(thing).finalize();
    let draw = u64::from_be_bytes(hash[..8].try_into().unwrap_or_default()) % 100;
    i64::try_from(draw).is_ok_and(|draw| draw < percent)
}

/// The digest of a manifest: of its text with every object's members in the order of their names and nothing between them, so
/// that whoever has the document can say it again.
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
    use muster_ids::World;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_canary_is_given_always_to_the_same_and_to_so_many_of_a_hundred() {
        let world = World::for_tests(3);
        let version: AppVersionId = world.id();
        let given = |percent| (0..2_000).filter(|n| gets_canary(version, &n.to_string(), percent)).count();
        assert_eq!((given(0), given(100)), (0, 2_000));
        assert!((400..600).contains(&given(25)), "{}", given(25));
        // Who has it keeps it when more get it.
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
        // Said again by hand: the digest of the text itself.
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
