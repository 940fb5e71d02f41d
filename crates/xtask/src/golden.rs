//! Which files are generated, and the two things one can do with them: compare and rewrite.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{additive, errors, operations, read, reference, sdk};

const DOCUMENT: &str = "openapi/platform.json";
/// The document of the last release; a release copies it there, and nothing else writes it.
const RELEASED: &str = "openapi/released/platform.json";

struct Golden {
    path: &'static str,
    text: String,
}

fn all(document: &Value) -> Result<Vec<Golden>> {
    Ok(vec![
        Golden { path: DOCUMENT, text: format!("{document:#}\n") },
        Golden { path: "openapi/operations.txt", text: operations::list() },
        Golden { path: "docs/reference/events.md", text: reference::events() },
        Golden { path: "docs/reference/permissions.md", text: reference::permissions() },
        Golden { path: "crates/sdk/src/generated.rs", text: sdk::generate(document)? },
    ])
}

/// Names every file that is not what the code would write, and every rule that the document breaks.
pub(crate) fn check(root: &Path) -> Result<()> {
    let document = muster_api::document();
    let mut findings = hand_written(root, &document)?;
    for golden in all(&document)? {
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
    bail!("what the code says is no longer what the files say: run make bless, read the diff and commit it")
}

/// Rewrites what has drifted. What people write by hand is still only judged.
pub(crate) fn bless(root: &Path) -> Result<()> {
    let document = muster_api::document();
    for golden in all(&document)? {
        let path = root.join(golden.path);
        if std::fs::read_to_string(&path).is_ok_and(|committed| committed == golden.text) {
            continue;
        }
        std::fs::create_dir_all(path.parent().expect("every path above has a folder"))?;
        std::fs::write(&path, golden.text).with_context(|| format!("{} cannot be written", golden.path))?;
        println!("wrote {}", golden.path);
    }
    let findings = hand_written(root, &document)?;
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("the above must be mended by hand")
    }
    Ok(())
}

/// What no command can write: the paragraphs about errors, and the promise to the last release.
fn hand_written(root: &Path, document: &Value) -> Result<Vec<String>> {
    let mut findings = errors::findings(&read(root, errors::PATH).unwrap_or_default());
    if root.join(RELEASED).exists() {
        let released = serde_json::from_str(&read(root, RELEASED)?)
            .with_context(|| format!("{RELEASED} is not JSON"))?;
        findings.extend(
            additive::breaking(&released, document)
                .into_iter()
                .map(|finding| format!("breaks callers of the last release: {finding}")),
        );
    } else {
        println!("no release yet: {RELEASED} does not exist, so every change of the API is free");
    }
    Ok(findings)
}

fn first_difference(committed: &str, generated: &str) -> String {
    let mut pairs = committed.lines().zip(generated.lines());
    match pairs.position(|(old, new)| old != new) {
        Some(at) => format!("from line {} on", at + 1),
        None => "at its end".to_owned(),
    }
}
