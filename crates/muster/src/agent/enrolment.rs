//! Operator's steps to create a node, through the public API only: enrol and approve.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::ArgMatches;
use muster_sdk::describe::{Description, Endpoint};
use muster_sdk::{Arguments, Connection, Connector, Error};
use serde_json::{Value, json};

/// An enrolment, as shown once.
pub(crate) struct Enrolment {
    pub(crate) token: String,
    pub(crate) ca_sha256: String,
}

/// An operator's client of the public API.
#[derive(Clone)]
pub(crate) struct Operator(Connection);

impl Operator {
    /// Connects with `--api`, `--token-file` and `--ca-file`, or their environment variables.
    pub(crate) fn connect(matches: &ArgMatches) -> anyhow::Result<Self> {
        let api = matches.get_one::<String>("api").context("--api")?;
        let token = match matches.get_one::<PathBuf>("token-file") {
            Some(file) => std::fs::read_to_string(file)
                .with_context(|| format!("reading the token from {}", file.display()))?,
            None => match std::env::var("MUSTER_TOKEN") {
                Ok(token) if !token.is_empty() => token,
                _ => bail!("give an operator's token with --token-file, or in MUSTER_TOKEN"),
            },
        };
        let mut connector = Connector::new(api).token(&token);
        if let Some(file) = matches.get_one::<PathBuf>("ca-file") {
            let pem = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
            connector = connector.ca_pem(pem);
        }
        Ok(Self(connector.connect()?))
    }

    /// Connects with a token, to an address without TLS.
    pub(crate) fn with_token(api: &str, token: &str) -> anyhow::Result<Self> {
        Ok(Self(Connector::new(api).token(token).connect()?))
    }

    /// Returns a node as the platform has it.
    pub(crate) async fn node(&self, node: &str) -> anyhow::Result<Value> {
        let path = BTreeMap::from([("node".to_owned(), node.to_owned())]);
        self.call("node_get", &Arguments { path, ..Arguments::default() }).await
    }

    /// Enrols a machine under this name.
    pub(crate) async fn enrol(&self, name: &str) -> anyhow::Result<Enrolment> {
        let arguments = Arguments { body: Some(json!({"name": name})), ..Arguments::default() };
        // A replayed response has no token; a new enrolment has.
        for _ in 0..3 {
            let answer = self.call("node_enrol", &arguments).await?;
            if let (Some(token), Some(ca_sha256)) = (answer["token"].as_str(), answer["ca_sha256"].as_str()) {
                return Ok(Enrolment { token: token.to_owned(), ca_sha256: ca_sha256.to_owned() });
            }
        }
        bail!("the server returned no token");
    }

    /// Approves this hardware of a node, unless it is already approved.
    pub(crate) async fn approve(&self, node: &str, digest: &str) -> anyhow::Result<()> {
        let path = BTreeMap::from([("node".to_owned(), node.to_owned())]);
        let arguments = Arguments { path, ..Arguments::default() };
        if self.call("node_get", &arguments).await?["approved_digest"].as_str() == Some(digest) {
            return Ok(());
        }
        let body = Some(json!({"digest": digest}));
        let arguments = Arguments { body, if_match: Some("*".to_owned()), ..arguments };
        self.call("node_approve", &arguments).await.map(drop)
    }

    /// Calls an endpoint, and waits if rate-limited.
    async fn call(&self, id: &str, arguments: &Arguments) -> anyhow::Result<Value> {
        let operation: &Endpoint = Description::embedded()
            .endpoint(id)
            .with_context(|| format!("the API of this program has no {id}"))?;
        loop {
            match self.0.call(operation, arguments).await {
                Ok(answer) => return Ok(answer.json()),
                Err(Error::Problem(problem)) if problem.status == 429 => {
                    tokio::time::sleep(Duration::from_secs(problem.retry_after.unwrap_or(1).max(1))).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
