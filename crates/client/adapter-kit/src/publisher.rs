//! Publisher mode: the publisher's account has no access to other projects, but mints short-lived tokens for the operator
//! accounts they consented to. One loop per consumer, each with its own token that is renewed before it expires.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::adapter::Adapter;
use crate::backoff::{Backoff, Chance};
use crate::credential::Credential;
use crate::platform::{Platform, RetryDecision, classify};
use crate::run::work_in;
use crate::stop::{Stop, Stopper, stop as order};
use crate::{Options, StartError};

/// Number of listings before a refused consumer is tried again.
const AFTER_REFUSAL: u32 = 20;

/// Serves every consumer, and lists entitlements periodically to find new ones.
pub(crate) async fn work<A: Adapter>(
    adapter: Arc<A>,
    publisher: Arc<Platform>,
    options: Arc<Options>,
    chance: Chance,
    stop: Stop,
) {
    let mut loops = JoinSet::new();
    let mut consumers: BTreeMap<String, (AbortHandle, Stopper)> = BTreeMap::new();
    let mut refused: BTreeMap<String, Instant> = BTreeMap::new();
    let mut backoff = Backoff::new(&chance);
    while !stop.is_ordered() {
        while let Some(ended) = loops.try_join_next() {
            if let Ok(Some(entitlement)) = ended {
                refused.insert(entitlement, Instant::now());
            }
        }
        consumers.retain(|_, (handle, _)| !handle.is_finished());
        refused.retain(|_, at| at.elapsed() < options.look_around * AFTER_REFUSAL);
        let pause = match publisher.entitlements().await {
            Ok(found) => {
                backoff.reset();
                let ours: BTreeMap<String, String> = found
                    .into_iter()
                    .filter(|held| options.apps.is_empty() || options.apps.contains(&held.app))
                    .map(|held| (held.id.to_string(), held.project_id.to_string()))
                    .collect();
                consumers.retain(|id, (_, stopper)| {
                    let stays = ours.contains_key(id);
                    if !stays {
                        stopper.stop();
                    }
                    stays
                });
                for (entitlement, project) in ours {
                    if refused.contains_key(&entitlement) {
                        continue;
                    }
                    consumers.entry(entitlement.clone()).or_insert_with(|| {
                        tracing::info!(%project, %entitlement, "working for a consumer");
                        let (stopper, stop) = order();
                        let (adapter, publisher) = (adapter.clone(), publisher.clone());
                        let (options, chance) = (options.clone(), chance.clone());
                        let consumer =
                            consume(adapter, publisher, entitlement, project, options, chance, stop);
                        (loops.spawn(consumer), stopper)
                    });
                }
                Some(options.look_around)
            }
            Err(error) => {
                tracing::warn!(project = %publisher.project, %error, "the entitlements cannot be listed");
                match classify(&error) {
                    RetryDecision::Again(after) => after,
                    RetryDecision::Refused(_) => Some(options.look_around),
                }
            }
        };
        tokio::select! {
            () = backoff.pause(pause) => {}
            () = stop.ordered() => {}
        }
    }
    for (_, stopper) in consumers.values() {
        stopper.stop();
    }
    loops.join_all().await;
}

/// Serves one consumer's project. Returns the entitlement if the platform refuses a token for it, as for a revoked one
/// without instances: each refusal is audited, so it is not retried at every listing.
async fn consume<A: Adapter>(
    adapter: Arc<A>,
    publisher: Arc<Platform>,
    entitlement: String,
    project: String,
    options: Arc<Options>,
    chance: Chance,
    stop: Stop,
) -> Option<String> {
    let credential = Credential::Minted { publisher, entitlement: entitlement.clone() };
    let fresh = match credential.fresh(&options).await {
        Ok(fresh) => fresh,
        Err(error) => {
            tracing::warn!(%project, %entitlement, %error, "no token could be minted");
            let passing = match &error {
                StartError::Platform { error, .. } => matches!(classify(error), RetryDecision::Again(_)),
                _ => true,
            };
            return (!passing).then_some(entitlement);
        }
    };
    let platform = Platform::new(&project, fresh.connection, credential, &options);
    tokio::select! {
        () = work_in(adapter, platform.clone(), &options, &chance, &stop) => {}
        () = keep_fresh(&platform, fresh.life, &chance) => {}
    }
    None
}

/// Renews the token after half of its lifetime. Never returns.
async fn keep_fresh(platform: &Platform, mut life: Option<Duration>, chance: &Chance) {
    let mut backoff = Backoff::new(chance);
    loop {
        let Some(known) = life else { return std::future::pending().await };
        tokio::time::sleep(known / 2).await;
        life = loop {
            match platform.renew().await {
                Ok(life) => break life,
                Err(error) => {
                    report(platform, &error);
                    backoff.pause(None).await;
                }
            }
        };
        backoff.reset();
    }
}

fn report(platform: &Platform, error: &StartError) {
    tracing::warn!(project = %platform.project, %error, "no token could be minted in time");
}
