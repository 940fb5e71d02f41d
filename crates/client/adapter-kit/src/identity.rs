//! Identity of an adapter.

use std::path::{Path, PathBuf};

use muster_sdk::{Arguments, Connection, Error, describe::Description};
use serde_json::Value;

use crate::Options;

/// Identity of the adapter on the platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The service account's id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The project it has access to.
    pub project_id: String,
    /// Its permissions there.
    pub permissions: Vec<String>,
}

impl Identity {
    /// Reports whether it has this permission.
    pub fn may(&self, permission: &str) -> bool {
        self.permissions.iter().any(|held| held == permission)
    }
}

/// A connected account.
#[derive(Debug, Clone)]
pub struct Account {
    /// Its identity.
    pub identity: Identity,
    /// The platform.
    pub connection: Connection,
}

/// Error at adapter start, written for the person deploying it.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An environment variable is missing.
    #[error(
        "{0} is not set; an adapter needs MUSTER_SERVER (the platform's address) and MUSTER_TOKEN_FILE (a service account's token)"
    )]
    NotSet(&'static str),
    /// The token cannot be read.
    #[error("the token file {path} cannot be read: {error}")]
    TokenFile {
        /// Path of the file.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// The platform returned an error.
    #[error("the platform at {server} rejected this adapter: {error}")]
    Platform {
        /// Address of the platform.
        server: String,
        /// The error.
        error: Error,
    },
    /// The token is not a service account's.
    #[error(
        "the token belongs to a {kind}; an adapter needs a service account, which is limited to its project"
    )]
    NotAServiceAccount {
        /// Kind of the token's owner.
        kind: String,
    },
    /// The account can neither lease steps nor mint tokens for accounts that can.
    #[error(
        "the service account {name} may neither lease steps (adapter_step.lease) nor mint operator tokens \
         (operator_token.mint), so an adapter has nothing to do; `muster service-account update {name}` \
         grants one"
    )]
    NothingToDo {
        /// Its name.
        name: String,
    },
}

/// Connects with `MUSTER_SERVER` and `MUSTER_TOKEN_FILE` from the environment. The token comes from a file because
/// environments can be listed.
pub async fn connect_from_env() -> Result<Account, StartError> {
    let set = |name: &'static str| {
        std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or(StartError::NotSet(name))
    };
    let (server, path) = (set("MUSTER_SERVER")?, PathBuf::from(set("MUSTER_TOKEN_FILE")?));
    connect(&server, &read_token(&path)?).await
}

/// Reads the token in a file.
pub(crate) fn read_token(path: &Path) -> Result<String, StartError> {
    std::fs::read_to_string(path)
        .map_err(|error| StartError::TokenFile { path: path.display().to_string(), error })
}

/// Connects to this server with this token, and verifies its identity.
pub async fn connect(server: &str, token: &str) -> Result<Account, StartError> {
    connect_with(&Options::new(server, Vec::new(), "", 0), token).await
}

/// The same with all settings.
pub(crate) async fn connect_with(options: &Options, token: &str) -> Result<Account, StartError> {
    let connection = options.connection(token)?;
    let whoami = Description::embedded()
        .endpoint("whoami")
        .ok_or_else(|| options.refused(Error::Setup("the API no longer has whoami".to_owned())))?;
    let answer = connection.call(whoami, &Arguments::default()).await;
    let who = answer.map_err(|error| options.refused(error))?.json();
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
    Ok(Account { identity, connection })
}
