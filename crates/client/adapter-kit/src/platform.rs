//! Client of the platform in one project: the few endpoints of the adapter contract, with a token that is kept fresh.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use muster_sdk::types::{
    AdapterStep, AdapterStepPage, AdapterTask, AdapterTaskCreate, Entitlement, EntitlementPage, Leased,
    LeasedStep, RuntimeSecret, RuntimeSecretIssue, RuntimeSecretPage,
};
use muster_sdk::{Arguments, Connection, Error};
use parking_lot::RwLock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::credential::Credential;
use crate::{CONTRACT, Options, StartError};

/// How to proceed after a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// Retry, after this time if the platform gave one.
    Again(Option<Duration>),
    /// Permanent refusal, without any effect.
    Refused(String),
}

/// Classifies an error. A refused token counts as temporary: it may be replaced at any moment, and the lease itself
/// decides whether it is lost by then.
pub(crate) fn classify(error: &Error) -> RetryDecision {
    match error {
        Error::Problem(problem) => match problem.status {
            401 | 408 | 429 | 500.. => RetryDecision::Again(problem.retry_after.map(Duration::from_secs)),
            _ => RetryDecision::Refused(error.to_string()),
        },
        Error::Unreachable { .. } | Error::Lost { .. } | Error::Answer { .. } => RetryDecision::Again(None),
        Error::Setup(_) => RetryDecision::Refused(error.to_string()),
    }
}

/// The platform in one project.
#[derive(Debug)]
pub(crate) struct Platform {
    pub(crate) project: String,
    options: Arc<Options>,
    credential: Credential,
    connection: RwLock<Connection>,
    /// Serializes renewals: a hundred steps refused at once need one new token.
    renewing: tokio::sync::Mutex<()>,
    /// Number of renewals. Read without waiting for a running one: until it ends the old token is valid.
    renewals: AtomicU64,
}

impl Platform {
    pub(crate) fn new(
        project: &str,
        connection: Connection,
        credential: Credential,
        options: &Arc<Options>,
    ) -> Arc<Self> {
        Arc::new(Self {
            project: project.to_owned(),
            options: options.clone(),
            credential,
            connection: RwLock::new(connection),
            renewing: tokio::sync::Mutex::new(()),
            renewals: AtomicU64::new(0),
        })
    }

    fn connection(&self) -> Connection {
        self.connection.read().clone()
    }

    /// Obtains a new token and uses it from now on. Returns its lifetime.
    pub(crate) async fn renew(&self) -> Result<Option<Duration>, StartError> {
        let _one = self.renewing.lock().await;
        self.renew_held().await
    }

    /// Renews; the caller holds the lock.
    async fn renew_held(&self) -> Result<Option<Duration>, StartError> {
        let fresh = self.credential.fresh(&self.options).await?;
        *self.connection.write() = fresh.connection;
        // After the connection: a reader of the new number must get the new token too.
        self.renewals.fetch_add(1, Ordering::SeqCst);
        Ok(fresh.life)
    }

    /// Calls an endpoint of this project. A refused token is replaced once, if there is another.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        operation: &str,
        path: &[(&str, &str)],
        body: &(impl Serialize + Sync),
    ) -> Result<T, Error> {
        let body = serde_json::to_value(body).map_err(|error| Error::Setup(error.to_string()))?;
        self.ask(operation, path, Arguments { body: Some(body), ..Arguments::default() }).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        operation: &str,
        path: &[(&str, &str)],
        arguments: Arguments,
    ) -> Result<T, Error> {
        let mut named: BTreeMap<String, String> =
            path.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        named.insert("project".to_owned(), self.project.clone());
        let arguments = Arguments { path: named, ..arguments };
        let before = self.renewals.load(Ordering::SeqCst);
        match self.connection().fetch(operation, &arguments).await {
            Err(Error::Problem(problem)) if problem.status == 401 => {
                let one = self.renewing.lock().await;
                if self.renewals.load(Ordering::SeqCst) == before
                    && let Err(error) = self.renew_held().await
                {
                    tracing::warn!(project = %self.project, %error, "the token is refused, and there is no other");
                    return Err(Error::Problem(problem));
                }
                drop(one);
                self.connection().fetch(operation, &arguments).await
            }
            other => other,
        }
    }

    /// Leases steps.
    pub(crate) async fn lease(&self, version: &str, most: usize, wait: Duration) -> Result<Leased, Error> {
        let wish = json!({
            "adapter": {"name": self.options.name, "version": version, "contract": CONTRACT},
            "most": most.clamp(1, 64),
            "wait_seconds": wait.as_secs().min(60),
            "lease_seconds": self.lease_seconds(),
        });
        self.call("adapter_step_lease", &[], &wish).await
    }

    /// Returns the lease duration.
    pub(crate) fn lease_seconds(&self) -> i64 {
        i64::try_from(self.options.lease.as_secs()).unwrap_or(600).clamp(5, 600)
    }

    /// Reports on a step: `heartbeat`, `progress`, `complete` or `fail`.
    pub(crate) async fn say(
        &self,
        what: &str,
        step: &str,
        body: &(impl Serialize + Sync),
    ) -> Result<AdapterStep, Error> {
        self.call(&format!("adapter_step_{what}"), &[("adapter_step", step)], body).await
    }

    /// Creates a task in a cell.
    pub(crate) async fn task(&self, step: &str, wish: &AdapterTaskCreate) -> Result<AdapterTask, Error> {
        self.call("adapter_task_create", &[("adapter_step", step)], wish).await
    }

    /// Returns the task, after waiting for its end.
    pub(crate) async fn task_get(
        &self,
        step: &str,
        task: &str,
        wait: Duration,
    ) -> Result<AdapterTask, Error> {
        let query = vec![("wait_seconds".to_owned(), wait.as_secs().to_string())];
        self.ask("adapter_task_get", &[("adapter_step", step), ("task", task)], asking(query)).await
    }

    /// Returns a step with a current snapshot of the instance.
    pub(crate) async fn step(&self, step: &str) -> Result<LeasedStep, Error> {
        self.ask("adapter_step_get", &[("adapter_step", step)], Arguments::default()).await
    }

    /// Returns all steps in this state.
    pub(crate) async fn steps(&self, state: &str) -> Result<Vec<AdapterStep>, Error> {
        let (mut steps, mut token) = (Vec::new(), None::<String>);
        loop {
            let mut query = page(token);
            query.push(("state".to_owned(), state.to_owned()));
            let page: AdapterStepPage = self.ask("adapter_step_list", &[], asking(query)).await?;
            steps.extend(page.items);
            token = page.next_page_token;
            if token.is_none() {
                return Ok(steps);
            }
        }
    }

    /// Returns other projects' entitlements to the apps this project publishes.
    pub(crate) async fn entitlements(&self) -> Result<Vec<Entitlement>, Error> {
        let (mut all, mut token) = (Vec::new(), None::<String>);
        loop {
            let mut query = page(token);
            query.push(("published".to_owned(), "true".to_owned()));
            let page: EntitlementPage = self.ask("entitlement_list", &[], asking(query)).await?;
            all.extend(page.items);
            token = page.next_page_token;
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    /// Returns the project's bootstrap secrets, without their values.
    pub(crate) async fn bootstrap_secrets(&self) -> Result<Vec<RuntimeSecret>, Error> {
        let (mut all, mut token) = (Vec::new(), None::<String>);
        loop {
            let mut query = page(token);
            query.push(("purpose".to_owned(), "cluster_bootstrap".to_owned()));
            let page: RuntimeSecretPage = self.ask("runtime_secret_list", &[], asking(query)).await?;
            all.extend(page.items);
            token = page.next_page_token;
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    /// Issues a bootstrap secret; the same key returns the same one. The value in the response is dropped immediately.
    pub(crate) async fn bootstrap_secret_issue(
        &self,
        wish: &RuntimeSecretIssue,
        key: String,
    ) -> Result<RuntimeSecret, Error> {
        let body = serde_json::to_value(wish).map_err(|error| Error::Setup(error.to_string()))?;
        let arguments = Arguments { body: Some(body), idempotency_key: Some(key), ..Arguments::default() };
        let issued: RuntimeSecret = self.ask("runtime_secret_issue", &[], arguments).await?;
        Ok(RuntimeSecret { value: None, ..issued })
    }

    /// Revokes a bootstrap secret. Its id is the idempotency key: a repeated request returns the first result.
    pub(crate) async fn bootstrap_secret_revoke(&self, secret: &str) -> Result<(), Error> {
        let body = json!({"reason": "every member has received another one"});
        let arguments = Arguments {
            body: Some(body),
            idempotency_key: Some(format!("revoke-{secret}")),
            ..Arguments::default()
        };
        self.ask::<Value>("runtime_secret_revoke", &[("runtime_secret", secret)], arguments).await.map(drop)
    }
}

fn asking(query: Vec<(String, String)>) -> Arguments {
    Arguments { query, ..Arguments::default() }
}

fn page(token: Option<String>) -> Vec<(String, String)> {
    let mut query = vec![("page_size".to_owned(), "200".to_owned())];
    query.extend(token.map(|token| ("page_token".to_owned(), token)));
    query
}

/// Returns the detail unless it is empty: an empty one must not replace the previous one.
pub(crate) fn detail(detail: &Map<String, Value>) -> Option<&Map<String, Value>> {
    (!detail.is_empty()).then_some(detail)
}
