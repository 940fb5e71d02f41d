//! Lint of a manifest: faults in the document itself, and references to things that do not exist.

use muster_api::app::Fault;
use muster_api::{Code, FieldError};
use muster_authz::Permission;
use muster_ids::{ArtifactId, ProjectId};
use muster_manifest::Context;
use muster_model::app::App;
use serde_json::Value;

use crate::{Cx, Error, Result};

/// Returns the lint findings that need no database, with the same messages as `muster app lint`.
pub(super) fn faults(document: &Value) -> Vec<Fault> {
    let known: Vec<&str> = Permission::ALL.iter().map(|permission| permission.as_str()).collect();
    let given = Permission::ALL.iter().filter(|permission| permission.grantable());
    let grantable: Vec<&str> = given.map(|permission| permission.as_str()).collect();
    let context = Context { known_permissions: &known, grantable: &grantable };
    let found = muster_manifest::lint(document, &context);
    found
        .into_iter()
        .map(|fault| Fault {
            path: fault.path,
            rule: fault.rule.to_owned(),
            message: fault.message,
            error: fault.error,
        })
        .collect()
}

/// Artifacts of a manifest, by their names in it.
pub(super) type Parts = Vec<(String, ArtifactId)>;

/// Returns all faults of a manifest as a release of this app, and the publisher's artifacts that it names. Every check reads
/// the raw document, so that one fault hides no other.
pub(super) async fn examined(cx: &Cx, app: &App, document: &Value) -> Result<(Vec<Fault>, Parts)> {
    let mut faults = faults(document);
    if let Some(slug) = document["app"].as_str().filter(|slug| *slug != app.slug) {
        let message = format!("it is the manifest of `{slug}`, and this app is `{}`", app.slug);
        faults.push(error("/app".to_owned(), "wrong_app", message));
    }
    if let Some(name) = document["version"].as_str() {
        let known = cx.platform.store.app_version_by_name(app.project_id, app.id, name).await;
        if known?.is_some() {
            let message = format!(
                "the release {name} was published before, and a release never changes: choose another name"
            );
            faults.push(error("/version".to_owned(), "version_taken", message));
        }
    }
    let mut parts = Parts::new();
    for (at, named) in
        document["artifacts"].as_array().map(Vec::as_slice).unwrap_or_default().iter().enumerate()
    {
        match part(cx, app.project_id, named).await? {
            Ok(id) => parts.push((named["name"].as_str().unwrap_or_default().to_owned(), id)),
            Err((field, rule, message)) => {
                faults.push(error(format!("/artifacts/{at}/{field}"), rule, message))
            }
        }
    }
    Ok((faults, parts))
}

/// Resolves an artifact named by a manifest: it must be in a repository of the publisher's project, under that exact digest.
async fn part(
    cx: &Cx,
    project: ProjectId,
    named: &Value,
) -> Result<Result<ArtifactId, (&'static str, &'static str, String)>> {
    let store = &cx.platform.store;
    // Lint already reported values that are not strings.
    let (Some(repository), Some(digest)) = (named["repository"].as_str(), named["digest"].as_str()) else {
        return Ok(Err(("digest", "no_artifact", "it names no repository and digest".to_owned())));
    };
    let Some(found) = store.repository_by_name(project, repository).await? else {
        let message = format!("the publisher's project has no repository {repository}: push to it first");
        return Ok(Err(("repository", "no_repository", message)));
    };
    let artifact = store.artifact_by_digest(found.id, digest).await?;
    Ok(match artifact {
        None => {
            let message = format!(
                "the repository {repository} has no artifact {digest}: push it, and publish it if it has no tag"
            );
            Err(("digest", "no_artifact", message))
        }
        Some(artifact) if !artifact.state.may_start() => {
            let message = format!(
                "the artifact is {} and cannot be used in a new release: name another",
                artifact.state
            );
            Err(("digest", "artifact_out_of_use", message))
        }
        Some(artifact) => Ok(artifact.id),
    })
}

fn error(path: String, rule: &str, message: String) -> Fault {
    Fault { path, rule: rule.to_owned(), message, error: true }
}

/// Returns the error for a rejected manifest: every fault by its place in the request, errors first.
pub(super) fn refused(faults: &[Fault]) -> Error {
    let errors = faults.iter().filter(|fault| fault.error).count();
    let field = |fault: &Fault| FieldError {
        pointer: format!("/manifest{}", fault.path),
        detail: match fault.error {
            true => format!("{}: {}", fault.rule, fault.message),
            false => format!("only a warning: {}: {}", fault.rule, fault.message),
        },
    };
    let (wrong, warned): (Vec<&Fault>, Vec<&Fault>) = faults.iter().partition(|fault| fault.error);
    let first = wrong.first().map(|fault| format!("{}: {}", fault.path, fault.message)).unwrap_or_default();
    let detail = format!("the manifest has {errors} errors, all listed here; the first is at {first}");
    Error::new(Code::LintFailed, detail).with_fields(wrong.into_iter().chain(warned).map(field).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_every_fault_by_its_place_in_the_request() {
        let fault = |path: &str, error| Fault {
            path: path.to_owned(),
            rule: "rule".to_owned(),
            message: "message".to_owned(),
            error,
        };
        let error = refused(&[fault("/a", false), fault("/b", true), fault("", true)]);
        let pointers: Vec<&str> = error.fields.iter().map(|error| error.pointer.as_str()).collect();
        assert_eq!(pointers, ["/manifest/b", "/manifest", "/manifest/a"]);
        assert!(error.detail.contains("2 errors"), "{}", error.detail);
    }
}
