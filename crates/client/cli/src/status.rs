//! `muster status`: overview of the platform.

use muster_sdk::Arguments;
use muster_sdk::describe::Description;
use serde_json::{Value, json};

use crate::columns::REPLICA;
use crate::context::{Context, Output, say};
use crate::failure::{Exit, Failure, Result};
use crate::operate::call;
use crate::printable::{printable, printable_json};
use crate::table;

const OURS: &str = env!("CARGO_PKG_VERSION");

/// Prints the status. The exit code reports whether all checks passed.
pub(crate) async fn status(context: &Context) -> Result<()> {
    let description = Description::embedded();
    let operation = description.endpoint("status_get");
    let operation = operation.ok_or_else(|| Failure::usage("the API no longer has status"))?;
    let mut status = call(&context.connect()?, operation, &Arguments::default()).await?;
    let healthy = status["healthy"] == Value::Bool(true);
    let skew = skew(&status, &description.version);
    if context.output == Output::Json {
        status["cli"] = json!({"version": OURS, "api_version": description.version, "skew": skew});
        say(&printable_json(&format!("{status:#}\n")))?;
    } else {
        say(&shown(context, &status, &description.version))?;
        if let Some(skew) = &skew {
            eprintln!("{skew}");
        }
    }
    if healthy { Ok(()) } else { Err(Failure::silent(Exit::Failed)) }
}

fn shown(context: &Context, status: &Value, contract: &str) -> String {
    let text = |key: &str| printable(status[key].as_str().unwrap_or("?")).into_owned();
    let mut lines = format!(
        "server    {}  at {}\ncli       {OURS}\ncontract  {}  (the CLI speaks {contract})\ndatabase  {}, schema {}\n",
        text("version"),
        printable(&context.server),
        text("api_version"),
        text("database"),
        status["schema_version"],
    );
    for check in status["checks"].as_array().into_iter().flatten() {
        let mark = if check["ok"] == Value::Bool(true) { '✓' } else { '✗' };
        let word = |key: &str| printable(check[key].as_str().unwrap_or_default()).into_owned();
        lines.push_str(format!("{mark} {:<14} {}", word("name"), word("detail")).trim_end());
        lines.push('\n');
    }
    if let Some(replicas) = status["replicas"].as_array().filter(|replicas| !replicas.is_empty()) {
        lines.push_str(&table::table(Some(REPLICA), replicas, context.now));
    }
    lines
}

/// Explains a version difference between client and server.
fn skew(status: &Value, contract: &str) -> Option<String> {
    let theirs = numbers(status["api_version"].as_str()?);
    match numbers(contract).cmp(&theirs) {
        std::cmp::Ordering::Less => Some(
            "the server's contract is newer than this CLI: its additions have no command here yet".to_owned(),
        ),
        std::cmp::Ordering::Greater => {
            Some("the server's contract is older than this CLI: it may refuse newer commands".to_owned())
        }
        std::cmp::Ordering::Equal => {
            let version = status["version"].as_str()?;
            (version != OURS).then(|| {
                format!("the server is version {version}, the CLI {OURS}; their contract is the same")
            })
        }
    }
}

fn numbers(version: &str) -> Vec<u64> {
    version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_is_told_in_both_directions() {
        let told =
            |version: &str, theirs: &str| skew(&json!({"version": version, "api_version": theirs}), "1.9.0");
        assert_eq!(told(OURS, "1.9.0"), None);
        assert!(told(OURS, "1.10.0").unwrap().contains("newer than this CLI"));
        assert!(told(OURS, "1.8.3").unwrap().contains("older than this CLI"));
        assert!(told("9.9.9", "1.9.0").unwrap().contains("their contract is the same"));
    }
}
