//! The fake's correct behaviour: a file for each member, in the hub's cell.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use muster_adapter_kit::types::{AdapterVerb, Health, MemberReport, MemberState, SnapshotMember};
use muster_adapter_kit::{Adapter, Done, Failure, Outcome, StepCx, command, file};
use serde_json::json;

use crate::death::Point;
use crate::modes::Modes;

/// The component that holds the files.
const HUB: &str = "hub";
/// Files read concurrently.
const AT_ONCE: usize = 16;

/// The adapter.
#[derive(Debug)]
pub(crate) struct Fake {
    modes: Modes,
    failed: AtomicU64,
}

impl Fake {
    pub(crate) fn new(modes: Modes) -> Self {
        Self { modes, failed: AtomicU64::new(0) }
    }

    /// Everything that can go wrong around an effect, and then the effect.
    async fn step(&self, cx: &StepCx, effect: impl Future<Output = Outcome>) -> Outcome {
        let verb = cx.verb();
        self.die(verb, Point::Before);
        tokio::time::sleep(self.modes.slowness(verb)).await;
        if let Some(reason) = self.modes.fail.get(verb)
            && self.modes.fail_times.is_none_or(|times| self.failed.fetch_add(1, Ordering::Relaxed) < times)
        {
            let reason = if reason.is_empty() { "told_to_fail" } else { reason };
            let message =
                format!("the fake is configured to fail {verb}; remove FAKE_FAIL from its environment");
            return Err(Failure { retry_after: self.modes.fail_retry, ..Failure::new(reason, message) });
        }
        if self.modes.stubborn.has(verb) {
            return self.never_end(cx).await;
        }
        if self.modes.lie.has(verb) {
            return Ok(Done::saying(format!("{verb}, unverified")));
        }
        if self.modes.forge.has(verb) {
            return self.forge(cx).await;
        }
        if self.modes.wrong.has(verb) {
            return self.do_wrong(cx).await;
        }
        if self.modes.add.has(verb) {
            return self.add_a_line(cx).await;
        }
        let outcome = effect.await;
        self.die(verb, Point::After);
        outcome
    }

    fn die(&self, verb: AdapterVerb, point: Point) {
        if let Some(death) = &self.modes.death
            && death.is_due(verb, point)
        {
            death.strike();
        }
    }

    async fn never_end(&self, cx: &StepCx) -> Outcome {
        for round in 1_u64.. {
            cx.progress(50, &format!("still in progress, round {round}")).await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        Ok(Done::default())
    }

    /// Replaces the programs of the witness checks, which would succeed if the checks trusted the cell's files.
    async fn forge(&self, cx: &StepCx) -> Outcome {
        if let Some(hub) = hub(cx) {
            let says = if cx.verb() == AdapterVerb::Drain { "DRAINED" } else { "UP" };
            let mut cat = file("/bin/cat", format!("#!/bin/sh\necho {says}\n"));
            let mut test = file("/bin/test", "#!/bin/sh\nexit 1\n");
            (cat.mode, test.mode) = (Some("755".to_owned()), Some("755".to_owned()));
            cx.write_files(hub, vec![cat, test]).await?;
            // Commands inside the cell are deceived. Report it, so that a judge knows that the attack took effect.
            let file = path(cx.member()?);
            let cat = cx.look(hub, command(["/bin/cat".to_owned(), file.clone()])).await?;
            let test = cx.look(hub, command(["/bin/test".to_owned(), "-e".to_owned(), file])).await?;
            let mut detail = said(cat.stdout.trim());
            detail.insert("test_ends_with".to_owned(), json!(test.exit));
            return Ok(Done { detail, ..Done::saying("forged") });
        }
        Ok(Done::saying("forged"))
    }

    async fn do_wrong(&self, cx: &StepCx) -> Outcome {
        if let Some(hub) = hub(cx) {
            cx.write_files(hub, vec![file(path(cx.member()?), "WRONG\n")]).await?;
        }
        Ok(Done::saying("something was done"))
    }

    /// Right when it is run once: a second run adds a second line.
    async fn add_a_line(&self, cx: &StepCx) -> Outcome {
        if let Some(hub) = hub(cx) {
            let member = cx.member()?;
            let ran = cx.look(hub, command(["/bin/cat".to_owned(), path(member)])).await?;
            let so_far = if ran.exit == 0 { ran.stdout } else { String::new() };
            cx.write_files(hub, vec![file(path(member), format!("{so_far}UP\n"))]).await?;
        }
        Ok(Done::saying("a line was added"))
    }

    /// Writes the member's file.
    async fn mark(&self, cx: &StepCx, word: &str) -> Outcome {
        let member = cx.member()?;
        let Some(hub) = hub(cx) else {
            let message = "no active hub yet; a unit needs one";
            return Err(Failure::retry(Duration::from_secs(2), "no_hub", message));
        };
        let mut files = vec![file(path(member), format!("{word}\n"))];
        if member.component_key == HUB {
            // A recreated hub has lost the files of its units.
            files.extend(
                cx.snapshot().members.iter().filter(|other| other.component_key != HUB).filter_map(known),
            );
        }
        cx.progress(50, &format!("setting {} to {word} in the hub", member.name)).await;
        cx.write_files(hub, files).await?;
        Ok(Done { detail: said(word), ..Done::saying(format!("{} is {word}", member.name)) })
    }

    /// Has the hub forget the member. A hub that is not there, or goes itself, has forgotten it.
    async fn forget(&self, cx: &StepCx) -> Outcome {
        let Ok(member) = cx.member() else { return Ok(Done::saying("it is already gone")) };
        match hub(cx) {
            Some(hub) if !hub.unreachable => {
                let mut removed = cx.remove_files(hub, [path(member)]).await;
                while self.modes.ignore_dead.has(cx.verb())
                    && removed.as_ref().is_err_and(Failure::is_cell_dead)
                {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    removed = cx.remove_files(hub, [path(member)]).await;
                }
                match removed {
                    // A dead or absent cell takes no task and holds nothing; the platform verifies that itself.
                    Err(failure) if failure.is_cell_dead() || failure.reason == "task_refused" => {
                        Ok(Done::saying(failure.message))
                    }
                    Err(failure) => Err(failure),
                    Ok(()) => Ok(Done {
                        detail: said("GONE"),
                        ..Done::saying(format!("{} is withdrawn", member.name))
                    }),
                }
            }
            _ => Ok(Done::saying("there is no hub that could know it")),
        }
    }

    /// Compares a member's file with its expected content.
    async fn report(&self, cx: &StepCx, member: &SnapshotMember) -> Result<MemberReport, Failure> {
        let should = word(member.state);
        let (health, message) = match (hub(cx), should) {
            (None, _) => (Health::Unknown, "there is no hub to query".to_owned()),
            (Some(hub), _) if hub.unreachable => (Health::Unknown, "the hub cannot be reached".to_owned()),
            (Some(hub), should) => {
                let ran = cx.look(hub, command(["/bin/cat".to_owned(), path(member)])).await?;
                let says = ran.stdout.trim();
                match should {
                    _ if ran.exit != 0 => (Health::Unhealthy, "the hub does not know it".to_owned()),
                    Some(should) if says == should => (Health::Healthy, format!("the hub reports {says}")),
                    Some(should) => (Health::Unhealthy, format!("the hub reports {says}, expected {should}")),
                    None => (Health::Unknown, format!("the hub reports {says}")),
                }
            }
        };
        Ok(MemberReport {
            adapter_detail: Default::default(),
            free_at: None,
            health,
            incarnation: member.incarnation,
            member_id: member.id.clone(),
            message: Some(message),
        })
    }

    async fn look(&self, cx: &StepCx) -> Outcome {
        let mut looks = Vec::new();
        for member in &cx.snapshot().members {
            if word(member.state).is_some() {
                looks.push(self.report(cx, member));
            }
        }
        let mut reports = futures::stream::iter(looks).buffered(AT_ONCE);
        let mut members = Vec::new();
        while let Some(report) = reports.next().await {
            members.push(report?);
        }
        let message = format!("reconciled {} members", members.len());
        Ok(Done { members, topology_mode: Some("hub_and_units".to_owned()), ..Done::saying(message) })
    }
}

impl Adapter for Fake {
    fn name(&self) -> &str {
        "fake"
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    async fn join(&self, cx: &StepCx) -> Outcome {
        self.step(cx, self.mark(cx, "UP")).await
    }

    async fn leave(&self, cx: &StepCx) -> Outcome {
        self.step(cx, self.forget(cx)).await
    }

    async fn drain(&self, cx: &StepCx) -> Outcome {
        self.step(cx, self.mark(cx, "DRAINED")).await
    }

    async fn resume(&self, cx: &StepCx) -> Outcome {
        self.step(cx, self.mark(cx, "UP")).await
    }

    async fn remove(&self, cx: &StepCx) -> Outcome {
        self.step(cx, self.forget(cx)).await
    }

    async fn reconcile(&self, cx: &StepCx) -> Outcome {
        self.step(cx, self.look(cx)).await
    }
}

/// Returns the hub of the files: the step's own member if that is a hub, else the first that works. The witnesses use the same one.
fn hub(cx: &StepCx) -> Option<&SnapshotMember> {
    match cx.member() {
        Ok(member) if member.component_key == HUB => Some(member),
        _ => cx.members_of(HUB).find(|hub| {
            matches!(hub.state, MemberState::Active | MemberState::Draining | MemberState::Drained)
        }),
    }
}

/// The member's file in the hub's cell.
fn path(member: &SnapshotMember) -> String {
    let name = if member.component_key == HUB { HUB } else { &member.name };
    format!("/run/fake/{name}")
}

/// Returns the expected content of a member's file, if its state defines one.
fn word(state: MemberState) -> Option<&'static str> {
    match state {
        MemberState::Active => Some("UP"),
        MemberState::Drained => Some("DRAINED"),
        _ => None,
    }
}

fn known(unit: &SnapshotMember) -> Option<muster_adapter_kit::types::File> {
    word(unit.state).map(|word| file(path(unit), format!("{word}\n")))
}

fn said(word: &str) -> serde_json::Map<String, serde_json::Value> {
    let mut detail = serde_json::Map::new();
    detail.insert("file_says".to_owned(), json!(word));
    detail
}
