//! Plans the next steps for the services of a cell from their observed state. Pure.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use muster_wire::cell::{Restart, Service, ServiceState, Start};

use crate::monitor::Seen;
use crate::record::Wish;
use crate::service::Run;

/// A run of at least this long did not fail at its start.
const STEADY: Duration = Duration::from_secs(30);

/// Interval between the first attempts of a probe.
const FIRST_PROBES: SignedDuration = SignedDuration::from_millis(50);
/// Time after which a running service without a probe is ready.
const SETTLED: SignedDuration = SignedDuration::from_secs(1);

/// Observed state of a service at one moment.
#[derive(Debug, Clone)]
pub(crate) struct View<'a> {
    pub(crate) service: &'a Service,
    pub(crate) run: Run,
    pub(crate) seen: Seen,
    /// Requested state, if any.
    pub(crate) wish: Option<&'a Wish>,
    /// Time of the last probe in this run.
    pub(crate) asked: Option<Timestamp>,
    /// Whether that probe is still pending.
    pub(crate) asking: bool,
}

/// A step for a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Start it, and record this run.
    Start(Run),
    /// Probe it.
    Ask,
    /// Record whether it is ready.
    Mark(bool),
}

/// Returns the backoff before an ended service is restarted.
pub(crate) fn backoff(streak: u32) -> Duration {
    Duration::from_secs(1_u64.checked_shl(streak).unwrap_or(30).clamp(1, 30))
}

/// Returns the steps to do now, for each service in the given order.
pub(crate) fn plan<'a>(now: Timestamp, views: &[View<'a>]) -> Vec<(&'a Service, Step)> {
    views.iter().filter_map(|view| Some((view.service, step(now, view, views)?))).collect()
}

fn step(now: Timestamp, view: &View<'_>, all: &[View<'_>]) -> Option<Step> {
    let may_start = || {
        view.service
            .after
            .iter()
            .all(|name| all.iter().any(|other| other.service.name == *name && is_ready(other)))
    };
    if !is_wanted(view) {
        return view.run.ready.then_some(Step::Mark(false));
    }
    match &view.seen {
        // A requested run starts when the previous one has ended, with a fresh backoff.
        Seen::Absent | Seen::Ended { .. } if view.run.number < asked_for(view) => {
            let run = Run { number: asked_for(view), streak: 0, ready: false, ..view.run };
            may_start().then_some(Step::Start(run))
        }
        // A recorded run that never started is started now: the agent died in between.
        Seen::Absent => {
            may_start().then_some(Step::Start(Run { number: view.run.number.max(1), ..view.run }))
        }
        Seen::Starting => None,
        Seen::Running { since, .. } => match &view.service.ready {
            None => (!view.run.ready && now.duration_since(*since) >= SETTLED).then_some(Step::Mark(true)),
            Some(probe) => {
                let pause = probe_pause(probe.every_seconds, view.run.ready, now.duration_since(*since));
                let due = view.asked.is_none_or(|asked| now.duration_since(asked) >= pause);
                (due && !view.asking).then_some(Step::Ask)
            }
        },
        Seen::Ended { at, ran, .. } => {
            if !restarts(view) {
                return view.run.ready.then_some(Step::Mark(false));
            }
            let streak = if *ran >= STEADY { 0 } else { view.run.streak };
            let pause = SignedDuration::try_from(backoff(streak)).unwrap_or(SETTLED);
            if now.duration_since(*at) < pause || !may_start() {
                return view.run.ready.then_some(Step::Mark(false));
            }
            Some(Step::Start(Run {
                number: view.run.number + 1,
                restarts: view.run.restarts + 1,
                streak: streak + 1,
                ready: false,
            }))
        }
    }
}

/// Returns the interval between two attempts of a probe. A service is probed often right after its start, so that callers do
/// not wait a second for one that is ready after a tenth.
fn probe_pause(every_seconds: u32, ready: bool, runs_for: SignedDuration) -> SignedDuration {
    let every = SignedDuration::from_secs(i64::from(every_seconds.max(1)));
    if ready { every } else { (runs_for / 4).clamp(FIRST_PROBES, every) }
}

/// Reports whether it should run at all.
pub(crate) fn is_wanted(view: &View<'_>) -> bool {
    match view.wish {
        Some(wish) => wish.run.is_some(),
        None => view.service.start == Start::WithCell,
    }
}

/// Returns the first requested run.
fn asked_for(view: &View<'_>) -> u32 {
    view.wish.and_then(|wish| wish.run).unwrap_or_default()
}

/// Reports whether an ended service will be restarted.
pub(crate) fn restarts(view: &View<'_>) -> bool {
    if !is_wanted(view) {
        return false;
    }
    match (&view.seen, view.service.restart) {
        (Seen::Ended { .. }, Restart::Always) => true,
        (Seen::Ended { exit, .. }, Restart::OnFailure) => *exit != Some(0),
        _ => false,
    }
}

/// Reports whether an ended service failed so often in a row, each time soon after its start, that another attempt is
/// pointless.
pub(crate) fn is_hopeless(view: &View<'_>, often: u32) -> bool {
    matches!(&view.seen, Seen::Ended { ran, .. } if *ran < STEADY) && view.run.streak + 1 >= often
}

/// Reports whether other services may depend on it: it is running and ready, or it was a one-off and succeeded.
pub(crate) fn is_ready(view: &View<'_>) -> bool {
    if !is_wanted(view) || view.run.number < asked_for(view) {
        return false;
    }
    match &view.seen {
        Seen::Running { .. } => view.run.ready,
        Seen::Ended { exit, .. } => *exit == Some(0) && !restarts(view),
        Seen::Absent | Seen::Starting => false,
    }
}

/// Returns the state for the wire protocol.
pub(crate) fn state(view: &View<'_>) -> ServiceState {
    match &view.seen {
        Seen::Absent | Seen::Ended { .. } if !is_wanted(view) => ServiceState::Idle,
        Seen::Ended { .. } if view.run.number < asked_for(view) => ServiceState::Waiting,
        Seen::Absent | Seen::Starting => ServiceState::Waiting,
        Seen::Running { .. } => ServiceState::Running,
        Seen::Ended { .. } if restarts(view) => ServiceState::Restarting,
        Seen::Ended { .. } => ServiceState::Ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn service(value: serde_json::Value) -> Service {
        let mut whole = json!({ "name": "a", "command": ["/x"] });
        whole.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000 + second).unwrap()
    }

    fn view(service: &Service, seen: Seen) -> View<'_> {
        View { service, run: Run::default(), seen, wish: None, asked: None, asking: false }
    }

    fn ended(exit: Option<i32>, second: i64, ran: u64) -> Seen {
        Seen::Ended { exit, at: at(second), ran: Duration::from_secs(ran), why: None }
    }

    fn started(step: &[(&Service, Step)]) -> Option<Run> {
        step.iter().find_map(|(_, step)| if let Step::Start(run) = step { Some(*run) } else { None })
    }

    #[test]
    fn a_service_waits_until_those_before_it_are_ready() {
        let (first, second) = (service(json!({})), service(json!({ "name": "b", "after": ["a"] })));
        let running = Seen::Running { pid: 1, since: at(0) };
        let mut views = [view(&first, running), view(&second, Seen::Absent)];
        assert_eq!(plan(at(0), &views), vec![]);
        assert_eq!(plan(at(1), &views), vec![(&first, Step::Mark(true))]);
        views[0].run.ready = true;
        assert_eq!(started(&plan(at(1), &views)).unwrap().number, 1);
    }

    #[test]
    fn service_that_exits_with_success_counts_as_ready() {
        let (first, second) = (service(json!({})), service(json!({ "name": "b", "after": ["a"] })));
        let done = [view(&first, ended(Some(0), 0, 1)), view(&second, Seen::Absent)];
        assert!(started(&plan(at(0), &done)).is_some());
        let probed = service(json!({ "ready": { "by": { "command": ["/bin/false"] } } }));
        let done = [view(&probed, ended(Some(0), 0, 1)), view(&second, Seen::Absent)];
        assert!(started(&plan(at(0), &done)).is_some(), "a probe that says no makes others wait for the end");
        let failed = [view(&first, ended(Some(1), 0, 1)), view(&second, Seen::Absent)];
        assert!(started(&plan(at(0), &failed)).is_none());
    }

    #[test]
    fn the_restart_policy_decides_who_is_started_again() {
        for (restart, exit, again) in [
            ("never", Some(1), false),
            ("on_failure", Some(0), false),
            ("on_failure", Some(1), true),
            ("on_failure", None, true),
            ("always", Some(0), true),
        ] {
            let service = service(json!({ "restart": restart }));
            let views = [view(&service, ended(exit, 0, 0))];
            assert_eq!(started(&plan(at(100), &views)).is_some(), again, "{restart} {exit:?}");
            assert_eq!(state(&views[0]) == ServiceState::Restarting, again);
        }
    }

    #[test]
    fn repeatedly_ending_service_backs_off_up_to_30_seconds() {
        assert_eq!([0, 1, 4, 5, 40, 4_000].map(|streak| backoff(streak).as_secs()), [1, 2, 16, 30, 30, 30]);
        let service = service(json!({}));
        let mut views = [view(&service, ended(Some(1), 0, 0))];
        views[0].run = Run { number: 4, restarts: 3, streak: 3, ready: false };
        assert_eq!(plan(at(7), &views), vec![]);
        assert_eq!(
            started(&plan(at(8), &views)),
            Some(Run { number: 5, restarts: 4, streak: 4, ready: false })
        );
        views[0].seen = ended(Some(1), 0, 60);
        assert_eq!(started(&plan(at(1), &views)).unwrap().streak, 1, "who ran for long starts anew");
    }

    #[test]
    fn a_probe_is_asked_at_its_pace_and_never_twice_at_once() {
        let service = service(json!({ "ready": { "by": { "tcp": 1 }, "every_seconds": 5 } }));
        let mut views = [view(&service, Seen::Running { pid: 1, since: at(0) })];
        assert_eq!(plan(at(0), &views), vec![(&service, Step::Ask)]);
        // Until it is ready the interval grows; after that it is the configured one.
        views[0].asked = Some(at(4));
        assert_eq!(plan(at(4), &views), vec![]);
        assert_eq!(plan(at(6), &views).len(), 1);
        views[0].asked = Some(at(50));
        assert_eq!(plan(at(54), &views), vec![]);
        assert_eq!(plan(at(55), &views).len(), 1);
        views[0].run.ready = true;
        views[0].asked = Some(at(1));
        assert_eq!(plan(at(5), &views), vec![]);
        assert_eq!(plan(at(6), &views).len(), 1);
        views[0].asking = true;
        assert_eq!(plan(at(50), &views), vec![]);
    }

    #[test]
    fn a_service_on_request_waits_for_one_and_each_is_answered_by_a_run_of_its_own() {
        let service = service(json!({ "start": "on_request", "restart": "always" }));
        let mut views = [view(&service, Seen::Absent)];
        assert_eq!((plan(at(0), &views), state(&views[0])), (vec![], ServiceState::Idle));
        let first = Wish { run: Some(1), by: "a".into() };
        views[0].wish = Some(&first);
        assert_eq!(state(&views[0]), ServiceState::Waiting);
        assert_eq!(started(&plan(at(0), &views)).unwrap().number, 1);
        // No longer wanted: it is not restarted, whatever its policy, and is not ready while it is still running.
        let none = Wish { run: None, by: "b".into() };
        views[0].run = Run { number: 1, restarts: 3, streak: 3, ready: true };
        views[0].wish = Some(&none);
        views[0].seen = Seen::Running { pid: 1, since: at(0) };
        assert!(!is_ready(&views[0]));
        views[0].seen = ended(Some(1), 0, 0);
        assert_eq!(plan(at(100), &views), vec![(&service, Step::Mark(false))]);
        assert_eq!(state(&views[0]), ServiceState::Idle);
        // Requested again, it starts at once.
        let second = Wish { run: Some(2), by: "c".into() };
        views[0].wish = Some(&second);
        assert_eq!(state(&views[0]), ServiceState::Waiting);
        assert_eq!(
            started(&plan(at(0), &views)),
            Some(Run { number: 2, restarts: 3, streak: 0, ready: false })
        );
        // While the previous run is alive nothing is started beside it, and its readiness does not count.
        views[0].seen = Seen::Running { pid: 1, since: at(0) };
        assert!(started(&plan(at(9), &views)).is_none() && !is_ready(&views[0]));
    }

    #[test]
    fn others_wait_for_a_service_on_request() {
        let first = service(json!({ "start": "on_request" }));
        let second = service(json!({ "name": "b", "after": ["a"] }));
        let views = [view(&first, ended(Some(0), 0, 1)), view(&second, Seen::Absent)];
        assert_eq!(plan(at(0), &views), vec![]);
        assert_eq!(state(&views[1]), ServiceState::Waiting);
    }

    #[test]
    fn a_service_that_ended_is_not_ready_any_more() {
        let service = service(json!({}));
        let mut views = [view(&service, ended(Some(1), 0, 0))];
        views[0].run.ready = true;
        assert_eq!(plan(at(0), &views), vec![(&service, Step::Mark(false))]);
    }
}
