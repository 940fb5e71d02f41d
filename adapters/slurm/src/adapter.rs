//! Dispatches each verb to the component it concerns.

use muster_adapter_kit::{Adapter, Done, Failure, Outcome, StepCx};

use crate::places::{CONTROLLER, LOGIN, WORKER};
use crate::{controller, login, reconcile, worker};

/// The adapter. It keeps nothing.
pub(crate) struct Slurm;

impl Adapter for Slurm {
    fn name(&self) -> &str {
        "slurm"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn join(&self, cx: &StepCx) -> Outcome {
        match component(cx)? {
            Component::Controller => controller::join(cx).await,
            Component::Worker => worker::join(cx).await,
            Component::Login => login::join(cx).await,
        }
    }

    async fn drain(&self, cx: &StepCx) -> Outcome {
        match component(cx)? {
            Component::Controller => controller::drain(cx).await,
            Component::Worker => worker::drain(cx).await,
            Component::Login => Ok(Done::saying("no job runs in it")),
        }
    }

    async fn resume(&self, cx: &StepCx) -> Outcome {
        match component(cx)? {
            Component::Controller => controller::resume(cx).await,
            Component::Worker => worker::resume(cx).await,
            Component::Login => Ok(Done::saying("nothing to resume")),
        }
    }

    async fn remove(&self, cx: &StepCx) -> Outcome {
        match component(cx)? {
            Component::Worker => worker::remove(cx).await,
            Component::Controller | Component::Login => Ok(Done::saying("no other member depends on it")),
        }
    }

    async fn reconcile(&self, cx: &StepCx) -> Outcome {
        reconcile::reconcile(cx).await
    }
}

enum Component {
    Controller,
    Worker,
    Login,
}

fn component(cx: &StepCx) -> Result<Component, Failure> {
    match cx.member()?.component_key.as_str() {
        CONTROLLER => Ok(Component::Controller),
        WORKER => Ok(Component::Worker),
        LOGIN => Ok(Component::Login),
        other => Err(Failure::new(
            "unknown_component",
            format!(
                "this adapter supports the components {CONTROLLER}, {WORKER} and {LOGIN}, not {other}: \
                 publish a manifest that follows apps/slurm/COMPONENTS.md"
            ),
        )),
    }
}
