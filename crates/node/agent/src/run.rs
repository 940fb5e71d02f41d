//! A node's agent from its start to its end. Everything it does is one future: dropping that is as good as `kill -9`.

use std::time::Duration;

use futures::future::{BoxFuture, Either, select};
use tokio::sync::watch;

use crate::AgentError;
use crate::alone::watching;
use crate::look::looking;
use crate::node::{Agent, Running};
use crate::observe::observing;
use crate::poll::polling;
use crate::renew::{check, renewing};
use crate::report::reporting;
use crate::stream::streaming;
use crate::work::working;

/// What runs when the agent is told to stop may take so long to finish.
const FINISH_WITHIN: Duration = Duration::from_secs(10);

/// Runs until `stop` says so, or until the server does not want this node any more. Boxed here, so that its code is made here
/// and lies together: an `async fn` would be made in the program, strewn among the server's, and each page of the program
/// that an idle agent touches brings fifteen neighbours into memory.
pub fn run(agent: Agent, stop: watch::Receiver<bool>) -> BoxFuture<'static, Result<(), AgentError>> {
    Box::pin(serve(agent, stop))
}

async fn serve(agent: Agent, mut stop: watch::Receiver<bool>) -> Result<(), AgentError> {
    check(&agent.identity, agent.world.now())?;
    let node = Running::new(agent)?;
    let presence = Box::pin(async {
        let (never, _, _) = tokio::try_join!(polling(&node), renewing(&node), looking(&node))?;
        Ok::<_, AgentError>(never)
    });
    let mut service = Box::pin(async {
        tokio::select! {
            never = working(&node) => Ok(never),
            never = streaming(&node) => Ok(never),
            never = node.driver.supervise(&node.world) => Ok(never),
            never = watching(&node) => Ok(never),
            ended = reporting(&node) => ended,
            ended = observing(&node) => ended,
        }
    });
    let told_to_stop = Box::pin(async {
        // Nobody is left who could say so: then it goes on.
        if stop.wait_for(|stop| *stop).await.is_err() {
            std::future::pending::<()>().await;
        }
    });
    match select(told_to_stop, select(presence, &mut service)).await {
        // Dropping the rest of this stops asking for work; what runs goes on below.
        Either::Left(((), presence)) => drop(presence),
        Either::Right((Either::Left((ended, _)) | Either::Right((ended, _)), _)) => {
            let never = ended?;
            match never {}
        }
    }
    tracing::info!("stopping: what runs is finished and reported first");
    node.lanes.lock().expect("no holder of this lock can panic").forget_waiting();
    let finished = tokio::time::timeout(FINISH_WITHIN, select(Box::pin(node.idle()), service)).await;
    match finished {
        Ok(Either::Left(_)) => tracing::info!("stopped"),
        Ok(Either::Right((ended, _))) => return ended.map(|never| match never {}),
        Err(_) => tracing::warn!("stopped with work under way: the server will ask for it again"),
    }
    Ok(())
}
