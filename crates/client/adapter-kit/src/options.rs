//! Settings of an adapter: the platform's address, credentials and limits.

use std::path::PathBuf;
use std::time::Duration;

use muster_sdk::{Connection, Connector, Error};

use crate::StartError;

/// Settings of the loop.
#[derive(Debug, Clone)]
pub struct Options {
    /// The platform's address.
    pub server: String,
    /// Certificate authorities to trust instead of the machine's, as a PEM file.
    pub ca_file: Option<PathBuf>,
    /// Token files, one loop each. A file is read again when its token is refused, so it can be rotated in place.
    pub token_files: Vec<PathBuf>,
    /// Slugs of the published apps that this adapter serves; default: all of the publisher's project.
    pub apps: Vec<String>,
    /// Name of this process on the platform, unique per process.
    pub name: String,
    /// Maximum number of concurrent steps per project.
    pub most: usize,
    /// Lease duration without a heartbeat: 5 seconds to 10 minutes.
    pub lease: Duration,
    /// Long-poll duration of a lease request.
    pub wait: Duration,
    /// Time that running steps have to finish after a stop.
    pub grace: Duration,
    /// Interval for listing the publisher's entitlements.
    pub look_around: Duration,
    /// Seed of all randomness in the loop.
    pub seed: u64,
}

impl Options {
    /// Returns the default settings.
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

    /// Returns a connection with this token.
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
