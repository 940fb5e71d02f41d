//! Lifetime of an agent. All its work is one future: dropping it is equivalent to `kill -9`.

use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use tokio::sync::watch;

use crate::AgentError;
use crate::look::looking;
use crate::node::{Agent, Running};
use crate::observe::observing;
use crate::poll::polling;
use crate::renew::{check, renewing};
use crate::report::reporting;
use crate::self_fencing::watching;
use crate::stream::streaming;
use crate::work::working;

/// Grace period for running jobs when the agent stops.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// Runs until `stop` is set, or until the server retires this node. Boxed here, so that its code is generated in this crate
/// and stays together. An `async fn` would be generated in the program, scattered among the server's code, and each page of
/// the program that an idle agent touches brings fifteen neighbours into memory.
pub fn run(agent: Agent, stop: watch::Receiver<bool>) -> BoxFuture<'static, Result<(), AgentError>> {
    Box::pin(serve(agent, stop))
}

async fn serve(agent: Agent, mut stop: watch::Receiver<bool>) -> Result<(), AgentError> {
    check(&agent.identity, agent.env.now())?;
    let node = Running::new(agent)?;
    let presence = Box::pin(async {
        let (never, _, _) = tokio::try_join!(polling(&node), renewing(&node), looking(&node))?;
        Ok::<_, AgentError>(never)
    });
    let mut service = Box::pin(async {
        tokio::select! {
            never = working(&node) => Ok(never),
            never = streaming(&node) => Ok(never),
            never = node.driver.clone().supervise(node.env.clone()) => Ok(never),
            never = watching(&node) => Ok(never),
            ended = reporting(&node) => ended,
            ended = observing(&node) => ended,
        }
    });
    let told_to_stop = Box::pin(async {
        // The sender was dropped: run on.
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    });
    match select(told_to_stop, select(presence, &mut service)).await {
        // Dropping the rest stops polling; running jobs continue below.
        Either::Left(((), presence)) => drop(presence),
        Either::Right((Either::Left((ended, _)) | Either::Right((ended, _)), _)) => {
            let never = ended?;
            match never {}
        }
    }
    tracing::info!("stopping: running tasks are finished and reported first");
    node.lanes.lock().forget_waiting();
    let finished = tokio::time::timeout(FINISH_WITHIN, select(Box::pin(node.idle()), service)).await;
    match finished {
        Ok(Either::Left(_)) => tracing::info!("stopped"),
        Ok(Either::Right((ended, _))) => return ended.map(|never| match never {}),
        Err(_) => tracing::warn!("stopped with tasks in progress: the server repeats them"),
    }
    Ok(())
}
