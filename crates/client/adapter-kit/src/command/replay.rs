//! Replays a step: as a dry run on the current instance, or under a lease.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use muster_sdk::types::LeasedStep;
use serde_json::json;
use tokio::time::Instant;

use super::Trouble;
use super::places::places;
use crate::adapter::{Adapter, Failure};
use crate::backoff::Chance;
use crate::carry::{Ended, carry, rehearse};
use crate::lease::Lease;
use crate::platform::Platform;
use crate::{Options, stop};

/// Finds the step and runs it again.
pub(super) async fn replay<A: Adapter>(
    adapter: A,
    options: Options,
    step: &str,
    for_real: bool,
    out: &mut (impl Write + Send),
) -> Result<(), Trouble> {
    let options = Arc::new(options);
    let (place, leased) = find(&options, step).await?;
    if for_real {
        under_lease(&adapter, &place, &options, step, out).await
    } else {
        dry(&adapter, leased, out).await
    }
}

async fn find(options: &Arc<Options>, step: &str) -> Result<(Arc<Platform>, LeasedStep), Trouble> {
    for place in places(options).await? {
        match place.step(step).await {
            Ok(leased) => return Ok((place, leased)),
            Err(muster_sdk::Error::Problem(problem)) if problem.status == 404 => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Trouble::Said(format!("this account has no step {step}; `lease-list` lists the steps")))
}

async fn dry<A: Adapter>(
    adapter: &A,
    leased: LeasedStep,
    out: &mut (impl Write + Send),
) -> Result<(), Trouble> {
    let (outcome, cx) = rehearse(adapter, leased).await;
    for deed in cx.rehearsed() {
        writeln!(out, "{deed}")?;
    }
    let end = match outcome {
        Ok(done) => {
            json!({"complete": {"message": done.message, "adapter_detail": done.detail, "members": done.members}})
        }
        Err(failure) => json!({"fail": {
            "reason": failure.reason,
            "message": failure.message,
            "retry_after_seconds": failure.retry_after.map(|after| after.as_secs()),
        }}),
    };
    writeln!(out, "{end}")?;
    Ok(())
}

/// Leases all available steps, since one cannot be leased by id, and immediately releases all but the requested one.
async fn under_lease<A: Adapter>(
    adapter: &A,
    place: &Arc<Platform>,
    options: &Options,
    step: &str,
    out: &mut (impl Write + Send),
) -> Result<(), Trouble> {
    let chance = Chance::new(options.seed);
    let leased = place.lease(adapter.version(), 64, Duration::ZERO).await?;
    let given_at = Instant::now();
    let mut found = None;
    for other in leased.steps {
        if *other.step.id == step {
            found = Some(other);
            continue;
        }
        let lease = Lease::new(place, &other.step, &chance, given_at);
        let failure =
            Failure::retry(Duration::from_secs(1), "not_meant", "another step is being tried by hand");
        if let Err(why) = lease.fail(failure).await {
            tracing::warn!(step = %other.step.id, %why, "a step could not be returned; its lease lapses");
        }
    }
    let Some(found) = found else {
        return Err(Trouble::Said(format!(
            "the step {step} cannot be leased now: it is leased, over, or not yet due; `lease-list` shows which"
        )));
    };
    let (_stopper, stop) = stop();
    let ended = carry(adapter, found, place, &chance, given_at, &stop, options.grace).await;
    writeln!(out, "{}", sentence(&ended))?;
    match ended {
        Ended::Completed => Ok(()),
        _ => Err(Trouble::Said(format!("the step {step} was not done"))),
    }
}

fn sentence(ended: &Ended) -> String {
    match ended {
        Ended::Completed => "completed; the platform verifies it now".to_owned(),
        Ended::Failed => "failed; reported to the platform".to_owned(),
        Ended::GivenUp(lost) => format!("abandoned: {lost}"),
        Ended::Unwanted(why) => format!("the platform rejected the result: {why}"),
        Ended::HandedBack => "returned".to_owned(),
    }
}
