//! The common verbs over HTTP, for every resource of the registry, with its own example.

use muster_db::AuditFilter;
use muster_model::{Resource, ResourceVisitor, visit_resources};
use muster_testkit::{Client, Database, Fixture, Kit};
use serde_json::{Value, json};

/// A resource, as the requests that try it.
struct Case {
    noun: &'static str,
    path: String,
    create: fn(&str) -> Value,
    update: Value,
    events: [&'static str; 3],
}

struct Cases(Vec<Case>);

/// Returns the JSON of a body without members that are not set.
fn body_of(input: &impl serde::Serialize) -> Value {
    let mut body = serde_json::to_value(input).unwrap();
    body.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    body
}

impl ResourceVisitor for Cases {
    fn visit<R: Resource>(&mut self) {
        self.0.push(Case {
            noun: R::NOUN,
            path: format!("/v1/{}", R::COLLECTION),
            create: |name| body_of(&R::example(name)),
            update: body_of(&R::example_update()),
            events: [R::EVENTS.created, R::EVENTS.updated, R::EVENTS.deleted].map(|event| event.as_str()),
        });
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    visit_resources(&mut cases);
    cases.0
}

/// Creates one of each resource, under its noun.
pub(crate) async fn add_all(kit: &Kit, fixture: &mut Fixture) {
    for case in cases() {
        let created = kit.operator().post(&case.path, (case.create)("standard")).await.ok();
        fixture.ids.insert(case.noun.to_owned(), created.text_of("id"));
    }
    kit.sealed().await;
}

/// Returns the request with which the access matrix tries an endpoint of a resource.
pub(crate) fn attempt(endpoint: &str, id: &impl Fn(&str) -> String) -> Option<(Vec<String>, String, Value)> {
    let cases = cases();
    let (case, verb) =
        cases.iter().find_map(|case| Some((case, endpoint.strip_prefix(case.noun)?.strip_prefix('_')?)))?;
    let (parameters, body) = match verb {
        "create" => (vec![], (case.create)("fresh")),
        "list" => (vec![], Value::Null),
        "get" | "delete" => (vec![id(case.noun)], Value::Null),
        "update" => (vec![id(case.noun)], case.update.clone()),
        _ => return None,
    };
    Some((parameters, String::new(), body))
}

/// Sends a request with `If-Match`.
async fn with_version(
    client: &Client,
    method: reqwest::Method,
    path: &str,
    version: &str,
    body: &Value,
) -> muster_testkit::Answer {
    let request = client.request(method, path).header("if-match", format!("\"{version}\""));
    client.send(if body.is_null() { request } else { request.json(body) }).await
}

/// Returns the actions of the platform's audit log.
async fn actions(kit: &Kit) -> Vec<String> {
    let filter = AuditFilter { limit: 1000, ..AuditFilter::default() };
    let entries = kit.store().audit_list("platform", &filter).await.unwrap();
    let action =
        |text: &str| serde_json::from_str::<Value>(text).unwrap()["action"].as_str().unwrap().to_owned();
    entries.iter().map(|sealed| action(&sealed.entry_text)).collect()
}

async fn serves_the_common_verbs(database: Database) {
    let kit = Kit::start(database, 1).await;
    let fixture = Fixture::build(&kit).await;
    let (operator, viewer) = (kit.operator(), fixture.client(&kit, "viewer"));
    for case in cases() {
        let Case { noun, path, create, update, events } = &case;
        // Creation is idempotent, and a name is unique.
        let first = operator.post_with_key(path, create("first"), "once").await.ok();
        let again = operator.post_with_key(path, create("first"), "once").await.ok();
        assert_eq!(first.body, again.body, "{noun}");
        operator.post(path, create("first")).await.refused(409, "name_taken");
        operator.post(path, create("second")).await.ok();
        viewer.post(path, create("third")).await.refused(403, "permission_denied");
        // Every actor reads, by id, by name and by page.
        let one = format!("{path}/{}", first.text_of("id"));
        assert_eq!(viewer.get(&one).await.ok().body, first.body, "{noun}");
        assert_eq!(viewer.get(&format!("{path}/first")).await.ok().body, first.body, "{noun}");
        viewer.get(&format!("{path}/absent")).await.refused(404, "not_found");
        kit.client_of(0, "").get(&one).await.refused(401, "unauthenticated");
        let page = viewer.get(&format!("{path}?page_size=1")).await.ok();
        assert_eq!(page.body["items"], json!([first.body]), "{noun}");
        let rest = viewer.get(&format!("{path}?page_token={}", page.text_of("next_page_token"))).await.ok();
        assert_eq!(rest.body["items"].as_array().unwrap().len(), 1, "{noun}");
        assert!(rest.body["next_page_token"].is_null(), "{noun}");
        // A change names the version that it is based on.
        let patch = reqwest::Method::PATCH;
        with_version(&operator, patch.clone(), &one, "7", update).await.refused(412, "version_mismatch");
        with_version(&viewer, patch.clone(), &one, "1", update).await.refused(403, "permission_denied");
        let changed = with_version(&operator, patch, &one, "1", update).await.ok();
        assert_eq!(changed.body["version"], 2, "{noun}");
        for (member, value) in update.as_object().unwrap() {
            assert_eq!(&changed.body[member], value, "{noun} {member}");
        }
        assert_eq!(viewer.get(&one).await.ok().body, changed.body, "{noun}");
        let delete = reqwest::Method::DELETE;
        with_version(&operator, delete.clone(), &one, "1", &Value::Null)
            .await
            .refused(412, "version_mismatch");
        with_version(&viewer, delete.clone(), &one, "2", &Value::Null)
            .await
            .refused(403, "permission_denied");
        with_version(&operator, delete, &one, "2", &Value::Null).await.ok();
        viewer.get(&one).await.refused(404, "not_found");
        // Each command left an audit entry and an event.
        kit.sealed().await;
        let found = actions(&kit).await;
        for verb in ["create", "update", "delete"] {
            assert!(found.contains(&format!("{noun}.{verb}")), "{noun}.{verb}: {found:?}");
        }
        let told = operator.get("/v1/events?page_size=200").await.ok();
        for event in events {
            let is_told = told.body["items"].as_array().unwrap().iter().any(|one| one["type"] == *event);
            assert!(is_told, "{event}: {}", told.body);
        }
    }
    kit.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_resource_serves_the_common_verbs() {
    serves_the_common_verbs(Database::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_resource_serves_the_common_verbs_on_postgres() {
    serves_the_common_verbs(Database::postgres()).await;
}
