//! Who an adapter is to the platform.

use std::path::{Path, PathBuf};

use muster_sdk::{Arguments, Connection, Error, describe::Description};
use serde_json::Value;

use crate::Options;

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

impl Identity {
    /// Whether it may do this.
    pub fn may(&self, permission: &str) -> bool {
        self.permissions.iter().any(|held| held == permission)
    }
}

/// An account that is connected.
#[derive(Debug, Clone)]
pub struct Account {
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
    /// The account may neither lease steps nor have tokens for those who may.
    #[error(
        "the service account {name} may neither lease steps (adapter_step.lease) nor mint operator tokens \
         (operator_token.mint), so there is nothing for an adapter to do; `muster service-account update {name}` gives it one"
    )]
    NothingToDo {
        /// Its name.
        name: String,
    },
}

/// Connects as the environment says: `MUSTER_SERVER` and `MUSTER_TOKEN_FILE`. The token is read from a file because an
/// environment can be listed.
pub async fn connect_from_env() -> Result<Account, StartError> {
    let set = |name: &'static str| {
        std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or(StartError::NotSet(name))
    };
    let (server, path) = (set("MUSTER_SERVER")?, PathBuf::from(set("MUSTER_TOKEN_FILE")?));
    connect(&server, &read_token(&path)?).await
}

/// The token in a file.
pub(crate) fn read_token(path: &Path) -> Result<String, StartError> {
    std::fs::read_to_string(path)
        .map_err(|error| StartError::TokenFile { path: path.display().to_string(), error })
}

/// Connects to this server with this token, and checks who that is.
pub async fn connect(server: &str, token: &str) -> Result<Account, StartError> {
    connect_with(&Options::new(server, Vec::new(), "", 0), token).await
}

/// The same with all settings.
pub(crate) async fn connect_with(options: &Options, token: &str) -> Result<Account, StartError> {
    let connection = options.connection(token)?;
    let whoami = Description::embedded()
        .operation("whoami")
        .ok_or_else(|| options.refused(Error::Setup("the API has no whoami any more".to_owned())))?;
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
