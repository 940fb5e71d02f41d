//! The adapter of docs/guides/write-an-adapter.md: a hub holds a file for each unit, and a unit works when its file
//! contains UP.

use std::process::ExitCode;
use std::time::Duration;

use muster_adapter_kit::types::{Health, MemberReport, MemberState, SnapshotMember};
use muster_adapter_kit::{Adapter, Done, Failure, Outcome, StepCx, command, file};

struct HubAndUnits;

impl Adapter for HubAndUnits {
    fn name(&self) -> &str {
        "hub-and-units"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn join(&self, cx: &StepCx) -> Outcome {
        mark(cx, "UP").await
    }

    async fn drain(&self, cx: &StepCx) -> Outcome {
        mark(cx, "DRAINED").await
    }

    async fn resume(&self, cx: &StepCx) -> Outcome {
        mark(cx, "UP").await
    }

    async fn remove(&self, cx: &StepCx) -> Outcome {
        if let (Some(hub), Ok(member)) = (hub(cx), cx.member()) {
            cx.remove_files(hub, [path(member)]).await?;
        }
        Ok(Done::saying("forgotten"))
    }

    async fn reconcile(&self, cx: &StepCx) -> Outcome {
        let mut members = Vec::new();
        for member in cx.members_of("unit").filter(|unit| unit.state == MemberState::Active) {
            let Some(hub) = hub(cx) else { break };
            let ran = cx.look(hub, command(["/bin/cat".to_owned(), path(member)])).await?;
            let up = ran.exit == 0 && ran.stdout.trim() == "UP";
            members.push(MemberReport {
                member_id: member.id.clone(),
                incarnation: member.incarnation,
                health: if up { Health::Healthy } else { Health::Unhealthy },
                message: Some(format!("the hub reports {:?}", ran.stdout.trim())),
                adapter_detail: Default::default(),
                free_at: None,
            });
        }
        Ok(Done { members, ..Done::default() })
    }
}

/// Has the member's file say this.
async fn mark(cx: &StepCx, word: &str) -> Outcome {
    let member = cx.member()?;
    let Some(hub) = hub(cx) else {
        return Err(Failure::retry(Duration::from_secs(2), "no_hub", "no active hub yet"));
    };
    cx.progress(50, &format!("setting {} to {word} in the hub", member.name)).await;
    cx.write_files(hub, vec![file(path(member), format!("{word}\n"))]).await?;
    Ok(Done::saying(format!("{} is {word}", member.name)))
}

/// Returns the member with the files in its cell: the hub the step is about, otherwise the first active hub.
fn hub(cx: &StepCx) -> Option<&SnapshotMember> {
    match cx.member() {
        Ok(member) if member.component_key == "hub" => Some(member),
        _ => cx.members_of("hub").find(|hub| hub.state == MemberState::Active),
    }
}

fn path(member: &SnapshotMember) -> String {
    let name = if member.component_key == "hub" { "hub" } else { &member.name };
    format!("/run/example/{name}")
}

fn main() -> ExitCode {
    muster_adapter_kit::main(HubAndUnits)
}
