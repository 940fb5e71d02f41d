//! Guarantees of the command pipeline as functions that search for a violation. The tests run them on a healthy platform,
//! and `sabotage` checks that each one detects a broken guard.

use futures::future::join_all;
use muster_testkit::{Client, Kit};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

/// Result of a search.
pub(crate) type Verdict = Result<(), String>;

fn differs(what: &str, expected: impl std::fmt::Debug, found: impl std::fmt::Debug) -> Verdict {
    Err(format!("{what}: expected {expected:?}, found {found:?}"))
}

/// Repeats of a command with one key have one effect and one response, also in parallel and across replicas. Tokens are
/// used because only the key distinguishes two of them.
pub(crate) async fn idempotent(kit: &Kit, token: &str, keys: usize, repeats: usize) -> Verdict {
    let clients: Vec<Client> = (0..kit.servers.len()).map(|at| kit.client_of(at, token)).collect();
    let before = tokens(&clients[0]).await.len();
    for key in 0..keys {
        let key = format!("property-{key}");
        let sent = (0..repeats).map(|at| {
            let (client, key) = (clients[at % clients.len()].clone(), key.clone());
            async move { client.post_with_key("/v1/tokens", json!({"name": key}), &key).await }
        });
        let answers = join_all(sent).await;
        let mut ids: Vec<String> = answers
            .iter()
            .map(|answer| answer.body["id"].as_str().map_or_else(|| answer.text.clone(), str::to_owned))
            .collect();
        ids.sort();
        ids.dedup();
        if ids.len() != 1 {
            return differs(&format!("answers for {key}"), 1, ids);
        }
        let shown = answers.iter().filter(|answer| answer.body["secret"].is_string()).count();
        if shown != 1 {
            return differs("answers that show the secret", 1, shown);
        }
    }
    let after = tokens(&clients[0]).await.len();
    if after - before != keys { differs("things made", keys, after - before) } else { Ok(()) }
}

async fn tokens(client: &Client) -> Vec<Value> {
    let mut all = Vec::new();
    let mut path = "/v1/tokens?page_size=200".to_owned();
    loop {
        let page = client.get(&path).await.ok();
        all.extend(page.body["items"].as_array().unwrap().iter().cloned());
        match page.body["next_page_token"].as_str() {
            Some(token) => path = format!("/v1/tokens?page_size=200&page_token={token}"),
            None => return all,
        }
    }
}

/// Every acknowledged command has exactly one audit entry, with its own correlation id.
pub(crate) async fn audited(kit: &Kit, client: &Client, tenant: &str, commands: usize) -> Verdict {
    let mut threads = Vec::new();
    for at in 0..commands {
        let made = client
            .post(&format!("/v1/tenants/{tenant}/projects"), json!({"name": format!("audited-{at}")}))
            .await;
        if made.status != 201 {
            return differs("a command", 201, made.text);
        }
        threads.push(made.header("x-correlation-id").to_owned());
    }
    kit.sealed().await;
    let records = chain(client, tenant).await?;
    for thread in threads {
        let entries = records.iter().filter(|record| record["correlation_id"] == json!(thread)).count();
        if entries != 1 {
            return differs(&format!("audit entries of {thread}"), 1, entries);
        }
    }
    Ok(())
}

/// Returns a tenant's audit chain, verified link by link with only SHA-256.
pub(crate) async fn chain(client: &Client, tenant: &str) -> Result<Vec<Value>, String> {
    let export = client.get(&format!("/v1/audit/export?tenant={tenant}")).await.ok();
    let mut previous = "0".repeat(64);
    let mut records = Vec::new();
    for (at, line) in export.text.lines().enumerate() {
        let entry: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let raw = &line[line.find("\"record\":").ok_or("no record")? + "\"record\":".len()..line.len() - 1];
        let number = entry["sequence"].as_i64().ok_or("no number")?;
        if number != at as i64 + 1 {
            differs("number in the chain", at + 1, number)?;
        }
        if entry["previous_hash"] != json!(previous) {
            differs(&format!("link before entry {number}"), &previous, &entry["previous_hash"])?;
        }
        let digest = Sha256::digest(format!("{previous}\n{number}\n{raw}"));
        let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if entry["hash"] != json!(hash) {
            differs(&format!("hash of entry {number}"), &hash, &entry["hash"])?;
        }
        previous = hash;
        records.push(entry["record"].clone());
    }
    Ok(records)
}

/// Concurrent commands leave streams without gaps or duplicates, at every level.
pub(crate) async fn gapless(kit: &Kit, client: &Client, tenant: &str, commands: usize, tag: &str) -> Verdict {
    let sent = (0..commands).map(|at| {
        let (client, path) = (client.clone(), format!("/v1/tenants/{tenant}/projects"));
        let body = json!({"name": format!("gapless-{tag}-{at}")});
        async move { client.post(&path, body).await.status }
    });
    let statuses = join_all(sent).await;
    if let Some(status) = statuses.iter().find(|status| **status != 201) {
        return differs("a command", 201, status);
    }
    kit.sealed().await;
    let operator = kit.operator();
    for scope in [String::new(), format!("&tenant={tenant}")] {
        let mut after = 0;
        loop {
            let page = operator.get(&format!("/v1/events?after={after}&page_size=200{scope}")).await.ok();
            let items = page.body["items"].as_array().unwrap().clone();
            if items.is_empty() {
                break;
            }
            for event in items {
                let number = event["sequence"].as_i64().unwrap();
                if number != after + 1 {
                    return differs(
                        &format!("the number after {after} in stream `{scope}`"),
                        after + 1,
                        number,
                    );
                }
                after = number;
            }
        }
    }
    chain(client, tenant).await.map(drop)
}
