//! The generated files, with the commands to compare and to rewrite them.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{errors, operations, read, reference, sdk};

const DOCUMENT: &str = "openapi/platform.json";
const NODE_DOCUMENT: &str = "openapi/node.json";

struct Golden {
    path: &'static str,
    text: String,
}

fn all(document: &Value) -> Result<Vec<Golden>> {
    Ok(vec![
        Golden { path: DOCUMENT, text: format!("{document:#}\n") },
        Golden { path: NODE_DOCUMENT, text: format!("{:#}\n", muster_wire::document()) },
        Golden { path: "openapi/manifest.schema.json", text: format!("{:#}\n", muster_manifest::schema()) },
        Golden { path: "openapi/operations.txt", text: operations::list() },
        Golden { path: "docs/reference/events.md", text: reference::events() },
        Golden { path: "openapi/events.json", text: reference::event_schemas() },
        Golden { path: "docs/reference/permissions.md", text: reference::permissions() },
        Golden { path: "crates/client/sdk/src/types.rs", text: sdk::generate(document)? },
    ])
}

/// Reports every file that differs from the generated one, and every error without its paragraph.
pub(crate) fn check(root: &Path) -> Result<()> {
    let document = muster_api::document();
    let mut findings = hand_written(root);
    for golden in all(document)? {
        match std::fs::read_to_string(root.join(golden.path)) {
            Ok(committed) if committed == golden.text => {}
            Ok(committed) => findings.push(format!(
                "{} has drifted {}",
                golden.path,
                first_difference(&committed, &golden.text)
            )),
            Err(_) => findings.push(format!("{} is missing", golden.path)),
        }
    }
    if findings.is_empty() {
        return Ok(());
    }
    for finding in &findings {
        println!("{finding}");
    }
    bail!("the generated files differ from the code: run make bless, read the diff and commit it")
}

/// Rewrites files that have drifted. Hand-written files are only checked.
pub(crate) fn bless(root: &Path) -> Result<()> {
    let document = muster_api::document();
    for golden in all(document)? {
        let path = root.join(golden.path);
        if std::fs::read_to_string(&path).is_ok_and(|committed| committed == golden.text) {
            continue;
        }
        std::fs::create_dir_all(path.parent().expect("every path above has a folder"))?;
        std::fs::write(&path, golden.text).with_context(|| format!("{} cannot be written", golden.path))?;
        println!("wrote {}", golden.path);
    }
    let findings = hand_written(root);
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("fix the above by hand")
    }
    Ok(())
}

/// Checks the part that no command can write: the paragraphs about errors.
fn hand_written(root: &Path) -> Vec<String> {
    errors::findings(&read(root, errors::PATH).unwrap_or_default())
}

fn first_difference(committed: &str, generated: &str) -> String {
    let mut pairs = committed.lines().zip(generated.lines());
    match pairs.position(|(old, new)| old != new) {
        Some(at) => format!("from line {} on", at + 1),
        None => "at its end".to_owned(),
    }
}
