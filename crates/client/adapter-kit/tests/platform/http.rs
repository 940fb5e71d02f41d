//! HTTP layer: one handler for every path of the document.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Response, Uri};
use serde_json::{Value, json};

use super::contract::Answer;
use super::{Call, Fault, Platform, Who};

pub(super) async fn serve(platform: Platform) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
        let platform = platform.clone();
        async move { answer(&platform, &method, &uri, &headers, &body).await }
    });
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    url
}

async fn answer(
    platform: &Platform,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: &[u8],
) -> Response<Body> {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = token.strip_prefix("Bearer ").unwrap_or_default().to_owned();
    let body: Value = if body.is_empty() { Value::Null } else { serde_json::from_slice(body).unwrap() };
    let parts: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
    let operation = operation(method, &parts);
    let fault = {
        let mut world = platform.world();
        if world.down {
            return refused(503, "unavailable", "the server cannot answer now");
        }
        world.calls.push(Call { operation: operation.to_owned(), token: token.clone(), body: body.clone() });
        let at = world.faults.iter().position(|(name, _)| name == operation);
        at.map(|at| world.faults.remove(at).1)
    };
    match fault {
        Some(Fault::Refuse(status, code)) => return refused(status, code, "so the test wants it"),
        Some(Fault::Hang) => return std::future::pending().await,
        Some(Fault::LoseAnswer | Fault::DelayAnswer(_)) | None => {}
    }
    let who = {
        let world = platform.world();
        let known = world.tokens.get(&token).cloned();
        known.filter(|who| who.until.is_none_or(|until| until > tokio::time::Instant::now()))
    };
    if operation == "openapi" {
        return given(&serde_json::from_str(muster_sdk_document()).unwrap());
    }
    let Some(who) = who else { return refused(401, "unauthenticated", "no valid credential was given") };
    let key = headers.get("idempotency-key").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let answer = match operation {
        "runtime_secret_issue" => platform.world().issue(&who, key, &body),
        "runtime_secret_revoke" => platform.world().revoke(parts[4]),
        _ => serve_one(platform, operation, &parts, uri.query().unwrap_or_default(), &who, &body).await,
    };
    match fault {
        Some(Fault::LoseAnswer) => {
            // To the client, a truncated body is a lost connection.
            let broken = futures::stream::once(async { Err::<Bytes, _>(std::io::Error::other("lost")) });
            return Response::new(Body::from_stream(broken));
        }
        Some(Fault::DelayAnswer(delay)) => tokio::time::sleep(delay).await,
        _ => {}
    }
    match answer {
        Ok(document) => given(&document),
        Err((status, code, detail)) => refused(status, code, &detail),
    }
}

fn operation(method: &Method, parts: &[&str]) -> &'static str {
    match (method.as_str(), parts) {
        ("GET", ["openapi.json"]) => "openapi",
        ("GET", ["v1", "whoami"]) => "whoami",
        ("POST", ["v1", "projects", _, "adapter-steps", "lease"]) => "adapter_step_lease",
        ("GET", ["v1", "projects", _, "adapter-steps"]) => "adapter_step_list",
        ("GET", ["v1", "projects", _, "adapter-steps", _]) => "adapter_step_get",
        ("POST", ["v1", "projects", _, "adapter-steps", _, "heartbeat"]) => "adapter_step_heartbeat",
        ("POST", ["v1", "projects", _, "adapter-steps", _, "progress"]) => "adapter_step_progress",
        ("POST", ["v1", "projects", _, "adapter-steps", _, "complete"]) => "adapter_step_complete",
        ("POST", ["v1", "projects", _, "adapter-steps", _, "fail"]) => "adapter_step_fail",
        ("POST", ["v1", "projects", _, "adapter-steps", _, "tasks"]) => "adapter_task_create",
        ("GET", ["v1", "projects", _, "adapter-steps", _, "tasks", _]) => "adapter_task_get",
        ("GET", ["v1", "projects", _, "entitlements"]) => "entitlement_list",
        ("POST", ["v1", "projects", _, "operator-tokens"]) => "operator_token_mint",
        ("GET", ["v1", "projects", _, "runtime-secrets"]) => "runtime_secret_list",
        ("POST", ["v1", "projects", _, "runtime-secrets"]) => "runtime_secret_issue",
        ("POST", ["v1", "projects", _, "runtime-secrets", _, "revoke"]) => "runtime_secret_revoke",
        _ => "unknown",
    }
}

async fn serve_one(
    platform: &Platform,
    operation: &str,
    parts: &[&str],
    query: &str,
    who: &Who,
    body: &Value,
) -> Answer {
    if operation == "whoami" {
        return Ok(json!({
            "kind": who.kind, "id": "sa_1", "name": who.name, "project_id": who.project,
            "permissions": who.permissions, "roles": [], "token_id": "tok_1",
        }));
    }
    let not_found = || (404, "not_found", "there is no such thing, or it is not yours to see".to_owned());
    if parts.get(2) != Some(&who.project.as_str()) {
        return Err(not_found());
    }
    if !who.permissions.iter().any(|held| held.replace('.', "_") == operation) {
        return Err((403, "permission_denied", format!("{operation} is not allowed")));
    }
    let id = parts.get(4).copied().unwrap_or_default();
    match operation {
        "adapter_step_lease" => {
            let until =
                tokio::time::Instant::now() + Duration::from_secs(body["wait_seconds"].as_u64().unwrap_or(0));
            loop {
                let leased = platform.world().lease(who, body)?;
                let over = tokio::time::Instant::now() >= until || platform.world().down;
                if over || leased["steps"].as_array().is_some_and(|steps| !steps.is_empty()) {
                    return Ok(leased);
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        "adapter_step_list" => {
            let world = platform.world();
            let state = query.split('&').find_map(|pair| pair.strip_prefix("state="));
            let steps = world.steps.iter().filter(|step| *step.project_id == who.project);
            let steps: Vec<_> =
                steps.filter(|step| state.is_none_or(|state| step.state.to_string() == state)).collect();
            Ok(json!({"items": steps}))
        }
        "adapter_step_get" => {
            let world = platform.world();
            let step = world.steps.iter().find(|step| *step.id == id && *step.project_id == who.project);
            step.map(|step| world.with_snapshot(step)).ok_or_else(not_found)
        }
        "adapter_task_create" => platform.world().task(who, id, body),
        "adapter_task_get" => {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let world = platform.world();
            let task = world
                .tasks
                .iter()
                .find(|task| task.step == id && Some(&task.task.id.as_str()) == parts.get(6));
            task.map(|task| json!(task.task)).ok_or_else(not_found)
        }
        "runtime_secret_list" => Ok(json!({"items": platform.world().secrets})),
        "entitlement_list" => Ok(platform.world().entitlements()),
        "operator_token_mint" => platform.world().mint(body),
        said => match said.strip_prefix("adapter_step_") {
            Some(what) => platform.world().say(who, what, id, body),
            None => Err(not_found()),
        },
    }
}

/// Returns the public document, which an adapter compares its contract with.
fn muster_sdk_document() -> &'static str {
    include_str!("../../../../../openapi/platform.json")
}

fn given(document: &Value) -> Response<Body> {
    Response::builder()
        .header("content-type", "application/json")
        .body(Body::from(document.to_string()))
        .unwrap()
}

fn refused(status: u16, code: &str, detail: &str) -> Response<Body> {
    let problem = json!({
        "type": "urn:x", "title": "t", "status": status, "detail": detail, "code": code,
        "correlation_id": "c0ffee", "retryable": status >= 500, "docs": "d",
    });
    Response::builder()
        .status(status)
        .header("content-type", "application/problem+json")
        .body(Body::from(problem.to_string()))
        .unwrap()
}
