//! Lint of an artifact.

use muster_api::artifact::LintFinding;
use muster_model::artifact::Artifact;
use muster_registry::lint::{Severity, lint};
use muster_registry::manifest::Manifest;

use super::damage::read_short;
use crate::{Cx, Result};

/// Lints a manifest, or each manifest of an index.
pub(super) async fn findings(cx: &Cx, artifact: &Artifact) -> Result<Vec<LintFinding>> {
    let store = &cx.platform.store;
    let mut found = Vec::new();
    let mut waiting = vec![artifact.digest.clone()];
    let mut seen = std::collections::HashSet::new();
    while let Some(digest) = waiting.pop() {
        if !seen.insert(digest.clone()) {
            continue;
        }
        let Some(content) = store.manifest_lookup(artifact.repository_id, &digest).await? else {
            continue;
        };
        let manifest = match Manifest::parse(&content.content, None) {
            Ok(manifest) => manifest,
            Err(error) => {
                found.push(LintFinding {
                    error: true,
                    rule: "manifest".to_owned(),
                    message: error.to_string(),
                    fix: "push it again with a current tool".to_owned(),
                });
                continue;
            }
        };
        let config = match &manifest.config {
            Some(config) => {
                let digest = config.digest.to_string();
                read_short(cx, artifact.repository_id, &digest, muster_registry::manifest::LONGEST as u64)
                    .await?
            }
            None => None,
        };
        let of = if digest == artifact.digest { String::new() } else { format!("{digest}: ") };
        found.extend(lint(&manifest, config.as_deref()).into_iter().map(|finding| LintFinding {
            error: finding.severity == Severity::Error,
            rule: finding.rule.to_owned(),
            message: format!("{of}{}", finding.message),
            fix: finding.fix.to_owned(),
        }));
        waiting.extend(manifest.children.iter().map(|child| child.digest.to_string()));
    }
    Ok(found)
}
