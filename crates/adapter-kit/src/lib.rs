//! What every adapter needs, on the SDK alone: an adapter is a program of its own that gives an app class its meaning,
//! through the public API, with the token of a service account and nothing else.
//!
//! Today the kit makes the connection and checks that it is the right kind of identity. The loop that leases adapter
//! steps, and the conformance suite that repeats, fails and kills them, come with instances: there is nothing to lease
//! before.

use muster_sdk::{Arguments, Connection, Error, describe::Description};
use serde_json::Value;

/// Who the adapter is to the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The service account's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The project in which it may act.
    pub project_id: String,
    /// What it may do there.
    pub permissions: Vec<String>,
}

/// A connected adapter.
#[derive(Debug)]
pub struct Adapter {
    /// Who it is.
    pub identity: Identity,
    /// The platform.
    pub connection: Connection,
}

/// Why an adapter cannot start. Each is a sentence for whoever deploys it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A variable of the environment is missing.
    #[error(
        "{0} is not set; an adapter needs MUSTER_SERVER (the platform's address) and MUSTER_TOKEN_FILE (a service account's token)"
    )]
    NotSet(&'static str),
    /// The token cannot be read.
    #[error("the token file {path} cannot be read: {error}")]
    TokenFile {
        /// Where it should be.
        path: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// The platform did not answer as it should.
    #[error("the platform at {server} does not take this adapter: {error}")]
    Platform {
        /// Where it is.
        server: String,
        /// What it said.
        error: Error,
    },
    /// The token is not a service account's.
    #[error(
        "the token is that of a {kind}; an adapter runs as a service account, which can do nothing outside its project"
    )]
    NotAServiceAccount {
        /// What it is.
        kind: String,
    },
}

/// Connects as the environment says: `MUSTER_SERVER` and `MUSTER_TOKEN_FILE`. The token is read from a file because an
/// environment can be listed.
pub async fn connect_from_env() -> Result<Adapter, StartError> {
    let set = |name: &'static str| {
        std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or(StartError::NotSet(name))
    };
    let (server, path) = (set("MUSTER_SERVER")?, set("MUSTER_TOKEN_FILE")?);
    let token = std::fs::read_to_string(&path).map_err(|error| StartError::TokenFile { path, error })?;
    connect(&server, &token).await
}

/// Connects to this server with this token, and checks who that is.
pub async fn connect(server: &str, token: &str) -> Result<Adapter, StartError> {
    let failed = |error: Error| StartError::Platform { server: server.to_owned(), error };
    let connection = muster_sdk::connect(server, token).map_err(failed)?;
    let whoami = Description::embedded()
        .operation("whoami")
        .ok_or_else(|| failed(Error::Setup("the API has no whoami any more".to_owned())))?;
    let who = connection.call(whoami, &Arguments::default()).await.map_err(failed)?.json();
    let text = |key: &str| who[key].as_str().unwrap_or_default().to_owned();
    if who["kind"] != "service_account" {
        return Err(StartError::NotAServiceAccount { kind: text("kind") });
    }
    let permissions = who["permissions"].as_array().into_iter().flatten();
    let identity = Identity {
        id: text("id"),
        name: text("name"),
        project_id: text("project_id"),
        permissions: permissions.filter_map(Value::as_str).map(str::to_owned).collect(),
    };
    Ok(Adapter { identity, connection })
}
