//! One step from its lease to its end: the adapter's method runs while heartbeats keep the lease.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use muster_sdk::types::{AdapterVerb, LeasedStep};
use tokio::time::Instant;

use crate::adapter::{Adapter, Done, Failure, Outcome};
use crate::backoff::Chance;
use crate::lease::{Lease, Lost};
use crate::platform::Platform;
use crate::step::StepCx;
use crate::stop::Stop;

/// How a step ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Completion was reported.
    Completed,
    /// Failure was reported, permanent or temporary.
    Failed,
    /// Dropped because the lease was lost.
    GivenUp(Lost),
    /// The platform refused the report.
    Unwanted(String),
    /// Returned early because the process stops; the platform offers it to another adapter.
    HandedBack,
}

/// Carries out the step.
pub(crate) async fn carry<A: Adapter>(
    adapter: &A,
    leased: LeasedStep,
    platform: &Arc<Platform>,
    chance: &Chance,
    given_at: Instant,
    stop: &Stop,
    grace: Duration,
) -> Ended {
    let step = leased.step.clone();
    let lease = Arc::new(Lease::new(platform, &step, chance, given_at));
    if stop.is_ordered() {
        // Leased by the last request before the stop: another adapter starts it.
        return hand_back(&lease).await;
    }
    let cx = StepCx::under(leased, lease.clone());
    tracing::info!(
        project = %platform.project, step = %step.id, verb = %step.verb, generation = step.generation,
        attempts = step.attempts, instance = %cx.snapshot().instance,
        member = cx.member().map_or("", |member| member.name.as_str()),
        correlation_id = %step.correlation_id, "a step was leased"
    );
    let work = async {
        let told = match attempt(adapter, &cx).await {
            Ok(done) => lease.complete(&done).await.map(|()| Ended::Completed),
            Err(failure) => {
                tracing::warn!(
                    step = %step.id, reason = %failure.reason, message = %failure.message,
                    retry_after = failure.retry_after.map(|after| after.as_secs()), "a step failed"
                );
                lease.fail(failure).await.map(|()| Ended::Failed)
            }
        };
        match told {
            Ok(ended) => ended,
            // A report that the platform refuses would be refused at every attempt: it is the adapter's fault, and
            // reported as such.
            Err(why) => {
                lease.must_be_ours().await;
                let refused = lease.fail(Failure::new("report_refused", why)).await;
                refused.map_or_else(Ended::Unwanted, |()| Ended::Failed)
            }
        }
    };
    let out_of_time = async {
        stop.ordered().await;
        tokio::time::sleep(grace).await;
    };
    let ended = tokio::select! {
        biased;
        lost = lease.keep() => Ended::GivenUp(lost),
        ended = work => ended,
        () = out_of_time => hand_back(&lease).await,
    };
    match &ended {
        Ended::GivenUp(lost) => {
            tracing::warn!(step = %step.id, generation = step.generation, why = %lost, "a step was abandoned");
        }
        Ended::Unwanted(why) => {
            tracing::warn!(step = %step.id, %why, "the result of a step was rejected")
        }
        Ended::Completed => tracing::info!(step = %step.id, "a step is done"),
        Ended::Failed | Ended::HandedBack => {}
    }
    ended
}

/// Runs the adapter's method. A panic fails the step but not the process: other steps run beside it.
pub(crate) async fn attempt<A: Adapter>(adapter: &A, cx: &StepCx) -> Outcome {
    let method = async {
        match cx.verb() {
            AdapterVerb::Join => adapter.join(cx).await,
            AdapterVerb::Leave => adapter.leave(cx).await,
            AdapterVerb::Drain => adapter.drain(cx).await,
            AdapterVerb::Resume => adapter.resume(cx).await,
            AdapterVerb::Remove => adapter.remove(cx).await,
            AdapterVerb::Reconcile => adapter.reconcile(cx).await,
            AdapterVerb::Unrecognised => Err(Failure::new(
                "unsupported",
                "the platform requests a verb that this adapter does not support; update it",
            )),
        }
    };
    AssertUnwindSafe(method).catch_unwind().await.unwrap_or_else(|panic| {
        let said = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("nothing");
        Err(Failure::new("adapter_panicked", format!("the adapter has an internal error: {said}")))
    })
}

/// Releases a step to the next adapter now, instead of when the lease expires.
async fn hand_back(lease: &Lease) -> Ended {
    let failure = Failure::retry(Duration::ZERO, "adapter_stopping", "the adapter was stopped");
    // Another adapter takes over either way: immediately, or when the lease expires.
    let _ = tokio::time::timeout(Duration::from_secs(2), lease.fail(failure)).await;
    Ended::HandedBack
}

/// Runs a dry run of a step.
pub(crate) async fn rehearse<A: Adapter>(adapter: &A, leased: LeasedStep) -> (Result<Done, Failure>, StepCx) {
    let cx = StepCx::rehearsal(leased);
    (attempt(adapter, &cx).await, cx)
}
