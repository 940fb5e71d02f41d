//! Reference pages generated from lists in the code.

use muster_authz::Permission;
use muster_model::Role;
use muster_model::event::{DataField, DataKind, EventType};
use serde_json::{Map, Value, json};

const GENERATED: &str = "<!-- Generated from the code by `make bless`; edit the code instead. -->\n";

/// Returns the page of event types.
pub(crate) fn events() -> String {
    let mut page = format!(
        "{GENERATED}\n# Events\n\n\
         The event types of `muster events`, event streams and webhooks: the `type` of a CloudEvent. A type never changes\n\
         its meaning; changed data is a new version beside the old one. The list grows: receivers ignore unknown types.\n\n\
         `data` has the fields of the last column, text if nothing else is said; those with `?` may be absent or null. Their JSON\n\
         Schemas are in [`openapi/events.json`](../../openapi/events.json). An event of an app instance or of a member carries\n\
         `instanceid` and `memberid` too, and so do those of operations on them and of what such an operation does: adapter steps,\n\
         allocations, cells. A command on an allocation or a cell itself belongs to no instance.\n\n\
         | type | meaning | data |\n| --- | --- | --- |\n"
    );
    for event in EventType::ALL {
        let data: Vec<String> = event.data().map(field).collect();
        page.push_str(&format!("| `{}` | {} | {} |\n", event.as_str(), event.meaning(), data.join(", ")));
    }
    page
}

fn field(field: DataField) -> String {
    let mark = if field.required { "" } else { "?" };
    match field.kind {
        DataKind::Text => format!("`{}{mark}`", field.name),
        kind => format!("`{}{mark}` ({})", field.name, kind.as_str()),
    }
}

/// Returns the JSON Schemas of the data of all events, by type.
pub(crate) fn event_schemas() -> String {
    let schema = |event: &EventType| {
        let property = |field: DataField| {
            let kind = field.kind.as_str();
            let kind = if field.required { json!(kind) } else { json!([kind, "null"]) };
            (field.name.to_owned(), json!({"type": kind}))
        };
        let properties: Map<String, Value> = event.data().map(property).collect();
        let required: Vec<&str> =
            event.data().filter(|field| field.required).map(|field| field.name).collect();
        let schema = json!({"description": event.meaning(), "type": "object", "properties": properties,
                            "required": required});
        (event.as_str().to_owned(), schema)
    };
    let schemas: Map<String, Value> = EventType::ALL.iter().map(schema).collect();
    let document = json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "$defs": schemas});
    format!("{document:#}\n")
}

/// Returns the page of permissions, their roles, and the endpoints that they guard.
pub(crate) fn permissions() -> String {
    let roles: Vec<&str> = Role::ALL.iter().map(|role| role.as_str()).collect();
    let mut page = format!(
        "{GENERATED}\n\
         # Permissions\n\n\
         A permission has the name of the operation it guards. A role grants it inside the scope where the \
         role is bound, and\n\
         nowhere else: a tenant's admin in that tenant and its projects, a project's people in that project. \
         A service\n\
         account has the permissions of its allow list, inside its own project, and the list can name only \
         those marked in its\n\
         column. `muster can-i PERMISSION` answers for yourself, with the reason.\n\n\
         Some actions on oneself need no permission: to read one's own user, to list, rotate and revoke one's \
         own tokens (a\n\
         service account too, though it can issue none), and to change one's own password with the current \
         one. Some permissions are\n\
         narrower than their row: operators bind roles on the platform and in tenants, not in projects, and \
         `audit.list` of a\n\
         project's admin needs `project=`.\n\n\
         | permission | {} | service account | guards |\n\
         | --- |{} --- | --- |\n",
        roles.join(" | "),
        " :-: |".repeat(roles.len()),
    );
    let operations = muster_api::endpoints();
    for permission in Permission::ALL {
        let held =
            Role::ALL.iter().map(|role| mark(permission.held_by(*role))).collect::<Vec<_>>().join(" | ");
        let listed = if permission.allowable() { "by its allow list" } else { "never" };
        let mut guards: Vec<String> = operations
            .iter()
            .filter(|operation| operation.permission == permission.as_str())
            .map(|operation| format!("`{} {}`", operation.method.as_str(), operation.path))
            .collect();
        guards.extend(beside(*permission).map(str::to_owned));
        let guards = guards.join(", ");
        page.push_str(&format!("| `{}` | {held} | {listed} | {guards} |\n", permission.as_str()));
    }
    page
}

/// Returns what a permission guards besides the endpoints of the contract: the registry's protocol, and the purposes of an
/// endpoint that serves several.
fn beside(permission: Permission) -> Option<&'static str> {
    Some(match permission {
        Permission::RepositoryPull => "`GET /v2/…`",
        Permission::RepositoryPush => "`POST`, `PATCH` and `PUT /v2/…`",
        Permission::RepositoryRetag => "`PUT /v2/…/manifests/{tag}` where the tag names something else",
        Permission::RepositoryDelete => "`DELETE /v2/…`",
        Permission::SecretUse => "`artifact.publish` with `external.secret`",
        Permission::RuntimeSecretArtifactPull => "`runtime_secret.issue` for the purpose `artifact_pull`",
        Permission::RuntimeSecretClusterBootstrap => {
            "`runtime_secret.issue` for the purpose `cluster_bootstrap`"
        }
        Permission::MemberForceRemove => "`member.remove` with `force`",
        Permission::MemberForceReplace => "`member.replace` with `force`",
        Permission::InstanceForceDecommission => "`instance.decommission` with `force`",
        _ => return None,
    })
}

fn mark(held: bool) -> &'static str {
    if held { "✓" } else { "–" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_permission_guards_an_operation() {
        for line in permissions().lines().filter(|line| line.starts_with("| `")) {
            assert!(!line.ends_with("|  |"), "{line}");
        }
    }
}
