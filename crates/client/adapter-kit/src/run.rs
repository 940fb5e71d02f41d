//! The loop: many steps at once, one task each, for every project in which the adapter may work.

use std::path::Path;
use std::sync::Arc;

use muster_sdk::Error;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::adapter::Adapter;
use crate::backoff::{Backoff, Chance};
use crate::carry::carry;
use crate::credential::Credential;
use crate::identity::{Account, connect_with, read_token};
use crate::platform::{Platform, Then, then};
use crate::publisher;
use crate::stop::Stop;
use crate::{Options, StartError};

/// What an account needs to lease steps.
pub(crate) const LEASE: &str = "adapter_step.lease";
/// What a publisher's account needs to work in the projects of others.
pub(crate) const MINT: &str = "operator_token.mint";

/// Runs an adapter until it is told to stop. It fails only where it is refused at the beginning: a platform that is not there,
/// then or later, is waited for.
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

/// Connects. An adapter may well be started before the platform is: one that is not there is waited for, one that says no is
/// an error. Nothing comes of it after the order to stop.
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

/// Leases and carries out steps in one project, until it is told to stop; what runs then has a while to end.
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
        // Only the order to stop ends a wait for work early: steps that are in an answer nobody reads are nobody's until their
        // leases have lapsed.
        let answer = tokio::select! {
            answer = platform.lease(adapter.version(), free, options.wait) => answer,
            () = stop.ordered() => break,
        };
        match answer {
            Ok(leased) => {
                backoff.reset();
                // It began when the platform answered, which is a little earlier; that we may believe in it for so much too
                // long does no harm, because the platform refuses whatever is said too late.
                let given_at = Instant::now();
                for step in leased.steps {
                    let (adapter, platform, chance, stop) =
                        (adapter.clone(), platform.clone(), chance.clone(), stop.clone());
                    let grace = options.grace;
                    running.spawn(async move {
                        carry(&*adapter, step, &platform, &chance, given_at, &stop, grace).await;
                    });
                }
            }
            Err(error) => {
                let after = match then(&error) {
                    Then::Again(after) => after,
                    // A right that was taken away can be given back: it is worth a question now and then.
                    Then::Refused(_) => Some(options.look_around),
                };
                tracing::warn!(project = %platform.project, %error, "no work could be asked for");
                tokio::select! {
                    () = backoff.pause(after) => {}
                    () = stop.ordered() => {}
                }
            }
        }
    }
    if !running.is_empty() {
        tracing::info!(project = %platform.project, steps = running.len(), "stopping; steps have a while to end");
    }
    running.join_all().await;
}
