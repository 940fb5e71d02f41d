//! Artifacts at the terminal: content to and from the registry, signatures, and the smoke test.
//!
//! The registry's protocol is a standard of its own and no part of the API's description, so what speaks it is written by
//! hand here. To call other programs for it (`skopeo`, `cosign`) was rejected: neither knows files, neither goes on with an
//! upload that an earlier run began, and a machine that has only this program could do nothing.

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

/// The type of an artifact that is made of files.
const FILES: &str = "application/vnd.muster.files.v1";
const IMAGE_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const IMAGE_INDEX: &str = "application/vnd.oci.image.index.v1+json";
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// The configuration that says nothing.
const EMPTY: &str = "application/vnd.oci.empty.v1+json";
/// The annotation that says which file a layer is.
const TITLE: &str = "org.opencontainers.image.title";
/// The annotation by which a layout calls what it holds.
const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// What registries hold a manifest to be at most.
const LONGEST_MANIFEST: u64 = 4 << 20;

/// The verbs that are more than one call.
pub(crate) fn verbs() -> Vec<Command> {
    [push::command(), pull::command(), sign::command(), smoke::command()].map(with_options).into()
}

/// The artifact, as every command takes it.
fn artifact_argument() -> Arg {
    Arg::new("artifact")
        .value_name("ARTIFACT")
        .required(true)
        .help("By REPOSITORY:TAG, REPOSITORY@sha256:… or its id")
}

/// The project that was said, or the profile's.
fn project(context: &Context, matches: &ArgMatches) -> Result<String> {
    let typed = matches.get_one::<String>("project").cloned();
    typed.or_else(|| context.default_for("project")).ok_or_else(|| {
        Failure::usage("which project? none was said").next(
            "add --project TENANT.PROJECT, set MUSTER_PROJECT, or keep one in the profile: `muster profile use NAME --project PROJECT`",
        )
    })
}

/// Calls an operation about an artifact.
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
