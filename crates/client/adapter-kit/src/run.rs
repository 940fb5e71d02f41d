//! The main loop: many concurrent steps, one task each, for every project the adapter serves.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use muster_sdk::Error;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::adapter::Adapter;
use crate::backoff::{Backoff, Chance};
use crate::carry::carry;
use crate::credential::Credential;
use crate::identity::{Account, connect_with, read_token};
use crate::platform::{Platform, RetryDecision, classify};
use crate::publisher;
use crate::stop::Stop;
use crate::{Options, StartError};

/// Permission to lease steps.
pub(crate) const LEASE: &str = "adapter_step.lease";
/// Time that a response to the last lease request has to arrive after a stop.
const LAST_RESPONSE: Duration = Duration::from_millis(300);
/// Shortest grace period. Until the platform has noticed that the last lease request was dropped, it would lease a step that
/// is handed back to that request again, and then wait for a process that has ended.
const SHORTEST_GRACE: Duration = LAST_RESPONSE.saturating_add(Duration::from_secs(1));
/// Permission of a publisher's account to work in other projects.
pub(crate) const MINT: &str = "operator_token.mint";

/// Runs an adapter until stopped. Fails only if refused at the beginning: an unreachable platform is retried, at the
/// start and later.
pub async fn run<A: Adapter>(adapter: Arc<A>, options: Options, stop: Stop) -> Result<(), StartError> {
    let chance = Chance::new(options.seed);
    let options = Arc::new(options);
    if options.token_files.is_empty() {
        return Err(StartError::NotSet("MUSTER_TOKEN_FILE"));
    }
    let mut loops = JoinSet::new();
    for file in &options.token_files {
        let Some(account) = introduce(&options, file, &chance, &stop).await? else { break };
        let identity = account.identity;
        tracing::info!(account = %identity.name, id = %identity.id, project = %identity.project_id, "connected");
        if !identity.may(LEASE) && !identity.may(MINT) {
            return Err(StartError::NothingToDo { name: identity.name });
        }
        let platform =
            Platform::new(&identity.project_id, account.connection, Credential::File(file.clone()), &options);
        if identity.may(MINT) {
            let (adapter, options, chance, stop) =
                (adapter.clone(), options.clone(), chance.clone(), stop.clone());
            let publisher = platform.clone();
            loops.spawn(async move { publisher::work(adapter, publisher, options, chance, stop).await });
        }
        if identity.may(LEASE) {
            let (adapter, options, chance, stop) =
                (adapter.clone(), options.clone(), chance.clone(), stop.clone());
            loops.spawn(async move { work_in(adapter, platform, &options, &chance, &stop).await });
        }
    }
    loops.join_all().await;
    tracing::info!("stopped");
    Ok(())
}

/// Connects. An adapter may start before the platform: an unreachable one is retried, a refusal is an error. Returns
/// `None` after a stop.
async fn introduce(
    options: &Options,
    file: &Path,
    chance: &Chance,
    stop: &Stop,
) -> Result<Option<Account>, StartError> {
    let mut backoff = Backoff::new(chance);
    loop {
        let error = match connect_with(options, &read_token(file)?).await {
            Ok(account) => return Ok(Some(account)),
            Err(error) => error,
        };
        let passing = match &error {
            StartError::Platform { error: Error::Unreachable { .. } | Error::Lost { .. }, .. } => true,
            StartError::Platform { error: Error::Problem(problem), .. } => problem.retryable,
            _ => false,
        };
        if !passing {
            return Err(error);
        }
        tracing::warn!(%error, "waiting for the platform");
        tokio::select! {
            () = backoff.pause(None) => {}
            () = stop.ordered() => return Ok(None),
        }
    }
}

/// Leases and carries out steps in one project until stopped; running steps then have the grace period to finish.
pub(crate) async fn work_in<A: Adapter>(
    adapter: Arc<A>,
    platform: Arc<Platform>,
    options: &Arc<Options>,
    chance: &Chance,
    stop: &Stop,
) {
    let mut running = JoinSet::new();
    let mut backoff = Backoff::new(chance);
    while !stop.is_ordered() {
        while running.try_join_next().is_some() {}
        let free = options.most.max(1).saturating_sub(running.len());
        if free == 0 {
            tokio::select! {
                _ = running.join_next() => {}
                () = stop.ordered() => {}
            }
            continue;
        }
        // Only a stop cancels a lease request, and not immediately: steps in an unread response would be held by no process
        // until their leases expire. `carry` hands steps that arrive after the stop back.
        let cancelled = async {
            stop.ordered().await;
            tokio::time::sleep(LAST_RESPONSE).await;
        };
        let answer = tokio::select! {
            biased;
            answer = platform.lease(adapter.version(), free, options.wait) => answer,
            () = cancelled => break,
        };
        match answer {
            Ok(leased) => {
                backoff.reset();
                // The lease began slightly earlier, when the platform responded. Overestimating it is harmless, because
                // the platform refuses late reports.
                let given_at = Instant::now();
                for step in leased.steps {
                    let (adapter, platform, chance, stop) =
                        (adapter.clone(), platform.clone(), chance.clone(), stop.clone());
                    let grace = options.grace.max(SHORTEST_GRACE);
                    running.spawn(async move {
                        carry(&*adapter, step, &platform, &chance, given_at, &stop, grace).await;
                    });
                }
            }
            Err(error) => {
                let after = match classify(&error) {
                    RetryDecision::Again(after) => after,
                    // A revoked permission can be granted again, so retry now and then.
                    RetryDecision::Refused(_) => Some(options.look_around),
                };
                tracing::warn!(project = %platform.project, %error, "no work could be requested");
                tokio::select! {
                    () = backoff.pause(after) => {}
                    () = stop.ordered() => {}
                }
            }
        }
    }
    if !running.is_empty() {
        tracing::info!(project = %platform.project, steps = running.len(), "stopping; steps have a grace period to end");
    }
    running.join_all().await;
}
