//! Shared by `exec`, `logs` and `cp`: creating a stream to a cell, and joining it.

use std::collections::BTreeMap;

use clap::{Arg, ArgMatches};
use muster_sdk::describe::{Description, Endpoint};
use muster_sdk::{Arguments, Connection, StreamInput, StreamOutput};
use serde_json::Value;

use crate::context::Context;
use crate::failure::{Failure, Result};
use crate::operate::call;

/// `-p, --project`.
pub(crate) fn project_argument() -> Arg {
    Arg::new("project")
        .long("project")
        .short('p')
        .value_name("PROJECT")
        .help("Its project, by id or name [env: MUSTER_PROJECT] [default: the profile's]")
}

/// A cell, as named on the command line.
pub(crate) struct Named {
    pub(crate) project: String,
    pub(crate) cell: String,
}

impl Named {
    pub(crate) fn of(context: &Context, matches: &ArgMatches, cell: &str) -> Result<Self> {
        let typed = matches.get_one::<String>("project").cloned();
        let project = typed.or_else(|| context.default_for("project")).ok_or_else(|| {
            Failure::usage("no project selected for the cell")
                .next("add --project PROJECT, or set one with `muster profile use NAME --project PROJECT`")
        })?;
        Ok(Self { project, cell: cell.to_owned() })
    }

    pub(crate) fn arguments(&self, body: Option<Value>) -> Arguments {
        let path = [("project", &self.project), ("cell", &self.cell)];
        let path: BTreeMap<String, String> =
            path.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
        Arguments { path, body, ..Arguments::default() }
    }
}

/// Returns an endpoint that these commands depend on.
pub(crate) fn operation(id: &str) -> Result<&'static Endpoint> {
    let missing = || Failure::usage(format!("the API no longer has {id}"));
    Description::embedded().endpoint(id).ok_or_else(missing)
}

/// Creates a stream, and joins it.
pub(crate) async fn join(
    connection: &Connection,
    named: &Named,
    asked: &'static Endpoint,
    body: Value,
) -> Result<(StreamInput, StreamOutput)> {
    let granted = call(connection, asked, &named.arguments(Some(body))).await?;
    let path = granted["path"].as_str().unwrap_or_default();
    let joins = operation("stream_join")?;
    connection.join(path).await.map_err(|error| Failure::call(Some(joins), error))
}
