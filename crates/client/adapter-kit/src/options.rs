//! How an adapter is run: where the platform is, who it is there, and how much it takes on.

use std::path::PathBuf;
use std::time::Duration;

use muster_sdk::{Connection, Connector, Error};

use crate::StartError;

/// The settings of the loop.
#[derive(Debug, Clone)]
pub struct Options {
    /// The platform's address.
    pub server: String,
    /// Certificate authorities to trust instead of the machine's, as a PEM file.
    pub ca_file: Option<PathBuf>,
    /// Files with tokens, one loop each. A file is read again when its token is refused, so it can be rotated in place.
    pub token_files: Vec<PathBuf>,
    /// Which of the apps that the publisher's project publishes are this adapter's, by slug; all of them, if none is named.
    pub apps: Vec<String>,
    /// The name of this process to the platform: one process, one name.
    pub name: String,
    /// How many steps are carried out at once, in each project.
    pub most: usize,
    /// How long a lease lasts without a heartbeat: 5 seconds to 10 minutes.
    pub lease: Duration,
    /// How long the platform is asked to wait for work before it answers that there is none.
    pub wait: Duration,
    /// After the order to stop, running steps have so long to end.
    pub grace: Duration,
    /// How often the publisher's entitlements are listed.
    pub look_around: Duration,
    /// The seed of all chance in the loop.
    pub seed: u64,
}

impl Options {
    /// The usual ones.
    pub fn new(
        server: impl Into<String>,
        token_files: Vec<PathBuf>,
        name: impl Into<String>,
        seed: u64,
    ) -> Self {
        Self {
            server: server.into(),
            ca_file: None,
            token_files,
            apps: Vec::new(),
            name: name.into(),
            most: 64,
            lease: Duration::from_secs(30),
            wait: Duration::from_secs(25),
            grace: Duration::from_secs(10),
            look_around: Duration::from_secs(30),
            seed,
        }
    }

    /// A connection with this token.
    pub(crate) fn connection(&self, token: &str) -> Result<Connection, StartError> {
        let mut connector = Connector::new(&self.server)
            .token(token)
            .user_agent(concat!("muster-adapter-kit/", env!("CARGO_PKG_VERSION")));
        if let Some(path) = &self.ca_file {
            let pem = std::fs::read(path).map_err(|error| {
                self.refused(Error::Setup(format!("the file {} cannot be read: {error}", path.display())))
            })?;
            connector = connector.ca_pem(pem);
        }
        connector.connect().map_err(|error| self.refused(error))
    }

    pub(crate) fn refused(&self, error: Error) -> StartError {
        StartError::Platform { server: self.server.clone(), error }
    }
}
