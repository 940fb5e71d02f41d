use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds =
    Bounds { confirm: SignedDuration::from_secs(30), restart: SignedDuration::from_secs(30) };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(10_000 + second).unwrap()
}

fn alive() -> CellObservation {
    let ready = service(ServiceState::Running, true);
    CellObservation {
        incarnation: 2,
        alive: true,
        services: vec![ready],
        message: None,
        boot_id: "one".to_owned(),
        since: at(0),
        observed_at: at(0),
    }
}

fn service(state: ServiceState, ready: bool) -> ServiceObservation {
    ServiceObservation {
        name: "db".to_owned(),
        state,
        ready,
        restarts: 0,
        exit: None,
        message: None,
        restarted_at: Vec::new(),
    }
}

fn node() -> NodeFacts<'static> {
    NodeFacts { name: "n1", unreachable_since: None, confirmed_at: Some(at(95)) }
}

fn facts(cell: &CellObservation) -> MemberFacts<'_> {
    MemberFacts {
        incarnation: 2,
        changed_at: at(0),
        node: Some(node()),
        cell: Some(cell),
        report: None,
        adapter_silent_at: Some(at(200)),
        before: None,
    }
}

fn assess(facts: &MemberFacts<'_>) -> (Health, Option<HealthReason>) {
    let assessed = assess_member(facts, BOUNDS, at(100));
    (assessed.health, assessed.reason)
}

#[test]
fn every_source_can_end_healthy() {
    let well = alive();
    assert_eq!(assess(&facts(&well)), (Health::Healthy, None));

    let dead = CellObservation { alive: false, since: at(42), ..alive() };
    assert_eq!(assess(&facts(&dead)), (Health::Unhealthy, Some(HealthReason::CellExited)));
    assert_eq!(assess_member(&facts(&dead), BOUNDS, at(100)).since, at(42));

    let lost = NodeFacts { unreachable_since: Some(at(90)), ..node() };
    let on_lost = MemberFacts { node: Some(lost), ..facts(&well) };
    assert_eq!(assess(&on_lost), (Health::Unknown, Some(HealthReason::NodeUnreachable)));
    let dead_on_lost = MemberFacts { node: Some(lost), ..facts(&dead) };
    assert_eq!(assess(&dead_on_lost).1, Some(HealthReason::CellExited), "it cannot come back to life");

    let stale = NodeFacts { confirmed_at: Some(at(60)), ..node() };
    let unconfirmed = MemberFacts { node: Some(stale), ..facts(&well) };
    assert_eq!(assess(&unconfirmed), (Health::Unknown, Some(HealthReason::Unconfirmed)));
    assert_eq!(assess_member(&unconfirmed, BOUNDS, at(100)).since, at(60));

    let never = NodeFacts { confirmed_at: None, ..node() };
    let never_confirmed = MemberFacts { node: Some(never), ..facts(&well) };
    assert_eq!(assess(&never_confirmed), (Health::Unknown, Some(HealthReason::Unconfirmed)));
    assert_eq!(assess_member(&never_confirmed, BOUNDS, at(100)).since, at(0), "since it became active");
    let just_active = MemberFacts { changed_at: at(80), ..never_confirmed };
    let just_active = assess_member(&just_active, BOUNDS, at(100));
    assert_eq!((just_active.health, just_active.review_at), (Health::Healthy, Some(at(110))));

    let unreported = MemberFacts { cell: None, ..facts(&well) };
    assert_eq!(assess(&unreported), (Health::Unknown, Some(HealthReason::Unconfirmed)));
    let just_made = MemberFacts { changed_at: at(90), ..unreported };
    assert_eq!(assess(&just_made), (Health::Healthy, None), "its first report may be on the way");
    assert_eq!(assess_member(&just_made, BOUNDS, at(100)).review_at, Some(at(150)), "or never come");

    let silent = MemberFacts { adapter_silent_at: Some(at(100)), ..facts(&well) };
    assert_eq!(assess(&silent), (Health::Unknown, Some(HealthReason::AdapterSilent)));
    let without_adapter = MemberFacts { adapter_silent_at: None, ..facts(&well) };
    assert_eq!(assess(&without_adapter), (Health::Healthy, None));

    let report = AdapterReport { incarnation: 2, health: Health::Degraded, message: None };
    let reported = MemberFacts { report: Some(&report), ..facts(&well) };
    assert_eq!(assess(&reported), (Health::Degraded, Some(HealthReason::AdapterReport)));

    let read_only = CellObservation { message: Some("its disk is read-only".to_owned()), ..alive() };
    assert_eq!(assess(&facts(&read_only)), (Health::Degraded, Some(HealthReason::CellImpaired)));
}

/// A node confirms its cells without a report, so nothing else would start the next assessment.
#[test]
fn an_unconfirmed_member_is_always_reviewed_again() {
    let well = alive();
    let stale = NodeFacts { confirmed_at: Some(at(60)), ..node() };
    let never = NodeFacts { confirmed_at: None, ..node() };
    for facts in [
        MemberFacts { node: Some(stale), ..facts(&well) },
        MemberFacts { node: Some(never), ..facts(&well) },
        MemberFacts { cell: None, ..facts(&well) },
    ] {
        let unconfirmed = assess_member(&facts, BOUNDS, at(100));
        assert_eq!(unconfirmed.reason, Some(HealthReason::Unconfirmed));
        assert_eq!(unconfirmed.review_at, Some(at(130)), "{facts:?}");
    }
}

#[test]
fn facts_about_another_incarnation_are_ignored() {
    let dead = CellObservation { alive: false, incarnation: 1, ..alive() };
    let report = AdapterReport { incarnation: 1, health: Health::Unhealthy, message: None };
    let anew = MemberFacts { report: Some(&report), changed_at: at(90), ..facts(&dead) };
    assert_eq!(assess(&anew), (Health::Healthy, None));
}

#[test]
fn a_service_has_its_time_to_restart() {
    let restarting = CellObservation { services: vec![service(ServiceState::Restarting, false)], ..alive() };
    let first = assess_member(&facts(&restarting), BOUNDS, at(100));
    assert_eq!((first.health, first.reason), (Health::Unhealthy, Some(HealthReason::ServiceRestarting)));
    assert!(!first.needs_repair());
    assert_eq!(first.review_at, Some(at(130)));
    let later = MemberFacts {
        before: Some((HealthReason::ServiceRestarting, first.since)),
        node: Some(NodeFacts { confirmed_at: Some(at(129)), ..node() }),
        ..facts(&restarting)
    };
    let later = assess_member(&later, BOUNDS, at(130));
    assert_eq!((later.reason, later.since), (Some(HealthReason::ServiceFailed), at(100)));
    assert!(later.needs_repair());

    let ended = CellObservation { services: vec![service(ServiceState::Ended, false)], ..alive() };
    assert!(assess_member(&facts(&ended), BOUNDS, at(100)).needs_repair(), "nothing restarts it");
    let idle = CellObservation { services: vec![service(ServiceState::Idle, false)], ..alive() };
    assert_eq!(assess(&facts(&idle)), (Health::Healthy, None), "it is not meant to run");
    let done = CellObservation { services: vec![service(ServiceState::Ended, true)], ..alive() };
    assert_eq!(assess(&facts(&done)), (Health::Healthy, None), "it did what it had to do");
}

fn times() -> impl Strategy<Value = Option<Timestamp>> {
    proptest::option::of((0..200_i64).prop_map(at))
}

proptest! {
    /// Healthy requires that every source confirmed it within its bound.
    #[test]
    fn unconfirmed_member_is_never_healthy(
        is_alive in any::<bool>(), ready in any::<bool>(), unreachable in times(), confirmed in times(), silent in times(),
        reported in 0..4_usize,
    ) {
        let cell = CellObservation { alive: is_alive, services: vec![service(ServiceState::Running, ready)], ..alive() };
        let report = AdapterReport { incarnation: 2, health: Health::ALL[reported], message: None };
        let node = NodeFacts { name: "n1", unreachable_since: unreachable, confirmed_at: confirmed };
        let all = MemberFacts {
            node: Some(node), report: Some(&report), adapter_silent_at: silent, ..facts(&cell)
        };
        let assessed = assess_member(&all, BOUNDS, at(100));
        if assessed.health == Health::Healthy {
            prop_assert!(is_alive && ready && unreachable.is_none());
            let confirmed = confirmed.unwrap_or(all.changed_at);
            prop_assert!(at(100).duration_since(confirmed) < BOUNDS.confirm);
            prop_assert!(silent.is_none_or(|time| time > at(100)));
            prop_assert_eq!(report.health, Health::Healthy);
        } else {
            prop_assert!(assessed.reason.is_some() && assessed.message.is_some());
        }
        // Silence alone never proves anything broken.
        if is_alive && ready && report.health == Health::Healthy {
            prop_assert!(matches!(assessed.health, Health::Healthy | Health::Unknown));
        }
    }
}

#[test]
fn a_bound_of_never_does_not_overflow() {
    assert_eq!(later(Timestamp::UNIX_EPOCH, SignedDuration::MAX), Timestamp::MAX);
}

#[test]
fn a_crash_loop_that_is_up_at_each_look_is_degraded_until_it_has_been_quiet() {
    let mut before = service(ServiceState::Running, true);
    for (seconds, restarts) in [(10, 1), (40, 2), (90, 3)] {
        let mut now = ServiceObservation { restarts, ..service(ServiceState::Running, true) };
        now.note_restarts(Some(&before), true, at(seconds));
        before = now;
    }
    let cell = CellObservation { services: vec![before.clone()], ..alive() };
    let looping = assess_member(&facts(&cell), BOUNDS, at(100));
    assert_eq!((looping.health, looping.reason), (Health::Degraded, Some(HealthReason::CrashLoop)));
    assert_eq!(looping.review_at, Some(at(200)), "the silence of its adapter comes first");
    assert!(!looping.needs_repair());
    assert_eq!(before.crash_loop_until(at(100)), Some(at(610)), "ten minutes after the first of the three");
    assert_eq!(before.crash_loop_until(at(610)), None);
    // While it is down it is unhealthy, like any service; and a broken member stays as its adapter reports it.
    let down = ServiceObservation { state: ServiceState::Restarting, ready: false, ..before.clone() };
    let down = CellObservation { services: vec![down], ..alive() };
    assert_eq!(assess(&facts(&down)).1, Some(HealthReason::ServiceRestarting));
    let report = AdapterReport { incarnation: 2, health: Health::Unhealthy, message: None };
    let reported = MemberFacts { report: Some(&report), ..facts(&cell) };
    assert_eq!(assess(&reported), (Health::Unhealthy, Some(HealthReason::AdapterReport)));
}

#[test]
fn restarts_are_counted_by_what_was_reported_before() {
    let mut first = ServiceObservation { restarts: 2, ..service(ServiceState::Running, true) };
    first.note_restarts(None, true, at(0));
    assert_eq!(first.restarted_at, [at(0), at(0)], "an incarnation begins with none");
    let mut same = ServiceObservation { restarted_at: Vec::new(), ..first.clone() };
    same.note_restarts(Some(&first), true, at(5));
    assert_eq!(same.restarted_at, first.restarted_at);
    let mut many = ServiceObservation { restarts: 500, ..same.clone() };
    many.note_restarts(Some(&same), true, at(6));
    assert_eq!(many.restarted_at.len(), 20, "as many as are remembered");
    let mut later = many.clone();
    later.note_restarts(Some(&many), true, at(700));
    assert_eq!(later.restarted_at, [], "what is long ago does not count");
    let mut starting = ServiceObservation { restarts: 9, ..service(ServiceState::Running, true) };
    starting.note_restarts(None, false, at(0));
    assert_eq!(starting.restarted_at, [], "what is not at work yet may try");
    let mut working = ServiceObservation { restarts: 10, ..starting.clone() };
    working.note_restarts(Some(&starting), true, at(1));
    assert_eq!(working.restarted_at, [at(1)], "and is not charged with that afterwards");
}

proptest! {
    /// Silence, whatever its source and however long, never makes a member broken: nothing is repaired, and no instance
    /// fails because of it. Only a dead cell, an unready service, or the adapter's report does.
    #[test]
    fn silence_never_breaks_a_member(
        reported in any::<bool>(),
        unreachable in prop::option::of(0..100_i64),
        confirmed in prop::option::of(-100_000..100_i64),
        silent_at in prop::option::of(-100_000..300_i64),
        changed in -100_000..100_i64,
        restarts in 0..50_u32,
        before in prop::option::of((0..9_usize, 0..100_i64)),
    ) {
        let mut up = ServiceObservation { restarts, ..service(ServiceState::Running, true) };
        up.note_restarts(None, true, at(50));
        let cell = CellObservation { services: vec![up], ..alive() };
        let node = NodeFacts { name: "n1", unreachable_since: unreachable.map(at), confirmed_at: confirmed.map(at) };
        let facts = MemberFacts {
            changed_at: at(changed),
            node: Some(node),
            cell: reported.then_some(&cell),
            adapter_silent_at: silent_at.map(at),
            before: before.map(|(reason, since)| (HealthReason::ALL[reason % HealthReason::ALL.len()], at(since))),
            ..facts(&cell)
        };
        let assessed = assess_member(&facts, BOUNDS, at(100));
        prop_assert!(!assessed.needs_repair() && !assessed.is_lost(), "{:?}", assessed);
        prop_assert_ne!(assessed.health, Health::Unhealthy);
    }
}
