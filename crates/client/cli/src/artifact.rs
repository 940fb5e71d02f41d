//! Artifact commands: content to and from the registry, signatures, and the smoke test.
//!
//! The registry's protocol is a separate standard and not part of the API description, so its client is hand-written.
//! Calling other programs (`skopeo`, `cosign`) was rejected: neither supports files, neither resumes an upload of an
//! earlier run, and both would have to be installed.

mod content;
mod download;
mod layout;
mod patience;
mod pending;
pub(crate) mod progress;
pub(crate) mod pull;
pub(crate) mod push;
mod reference;
mod registry;
pub(crate) mod sign;
pub(crate) mod smoke;
mod source;
mod tree;
mod trouble;
mod upload;
pub(crate) mod view;

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches, Command};
use muster_sdk::{Arguments, Connection};
use serde_json::Value;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::join::operation;
use crate::operate::call;
use crate::options::with_options;

/// Artifact type for files.
const FILES: &str = "application/vnd.muster.files.v1";
const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const IMAGE_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// Media type of the empty configuration.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// Annotation with a layer's file name.
const TITLE: &str = "org.opencontainers.image.title";
/// Annotation with an image's name in a layout.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Maximum size of a manifest in registries.
const LONGEST_MANIFEST: u64 = 4 << 20;

/// Returns the verbs that are more than one call.
pub(crate) fn verbs() -> Vec<Command> {
    [push::command(), pull::command(), sign::command(), smoke::command()].map(with_options).into()
}

/// Returns the artifact argument, common to all commands.
fn artifact_argument() -> Arg {
    Arg::new("artifact")
        .value_name("ARTIFACT")
        .required(true)
        .help("By REPOSITORY:TAG, REPOSITORY@sha256:… or its id")
}

/// Returns the project from the command line, or the profile's.
fn project(context: &Context, matches: &ArgMatches) -> Result<String> {
    let typed = matches.get_one::<String>("project").cloned();
    typed.or_else(|| context.default_for("project")).ok_or_else(|| {
        Failure::usage("no project selected").next(
            "add --project TENANT.PROJECT, set MUSTER_PROJECT, or keep one in the profile: `muster profile use NAME --project PROJECT`",
        )
    })
}

/// Calls an endpoint on an artifact.
async fn about(
    connection: &Connection,
    id: &str,
    (project, artifact): (&str, &str),
    body: Option<Value>,
) -> Result<Value> {
    let path = [("project", project), ("artifact", artifact)];
    let path: BTreeMap<String, String> = path.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    call(connection, operation(id)?, &Arguments { path, body, ..Arguments::default() }).await
}
