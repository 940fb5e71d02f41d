//! Decides on repairs of broken members: nothing, a proposal, a replacement, or, if replacements do not help, no more of
//! them. Pure.

use jiff::{SignedDuration, Timestamp};
use muster_ids::MemberId;

use crate::instance::RepairMode;

/// Circuit breaker: limit of automatic replacements within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Maximum number.
    pub most: i64,
    /// The window.
    pub window: SignedDuration,
}

impl Breaker {
    /// Returns those of `past` that still count.
    pub fn recent(&self, past: &[Timestamp], now: Timestamp) -> Vec<Timestamp> {
        past.iter().copied().filter(|at| *at + self.window > now).collect()
    }
}

/// Limit of automatic restarts of a cell with a restart policy; after that its owner decides.
pub const CELL_RESTARTS: Breaker = Breaker { most: 3, window: SignedDuration::from_hours(1) };

/// A member that does not work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// Its id.
    pub member: MemberId,
    /// Whether its owner has not been notified yet.
    pub unannounced: bool,
    /// Whether an operation is already open on it.
    pub busy: bool,
}

/// Decision on repairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing.
    Nothing,
    /// Propose to replace these; a user decides.
    Propose(Vec<MemberId>),
    /// Open a replacement of this one.
    Open(MemberId),
    /// The breaker is open: replacements did not help, so these are only proposed, and a user has to decide.
    Suspend(Vec<MemberId>),
}

/// Decides on repairs. One replacement is opened at a time (`repairing`: one is open): when many members fail together the
/// cause is rarely theirs, and the outcome of the first replacement should be known before the next.
pub fn consider(
    mode: RepairMode,
    breaker: Breaker,
    past: &[Timestamp],
    broken: &[Broken],
    repairing: bool,
    now: Timestamp,
) -> Decision {
    let free: Vec<&Broken> = broken.iter().filter(|broken| !broken.busy).collect();
    let unannounced: Vec<MemberId> =
        free.iter().filter(|broken| broken.unannounced).map(|broken| broken.member).collect();
    let say = |decide: fn(Vec<MemberId>) -> Decision| match unannounced.is_empty() {
        true => Decision::Nothing,
        false => decide(unannounced.clone()),
    };
    match mode {
        RepairMode::Off => Decision::Nothing,
        RepairMode::Propose => say(Decision::Propose),
        RepairMode::Automatic => {
            let recent = i64::try_from(breaker.recent(past, now).len()).unwrap_or(i64::MAX);
            match free.first() {
                _ if repairing || broken.iter().any(|broken| broken.busy) => Decision::Nothing,
                None => Decision::Nothing,
                Some(_) if recent >= breaker.most => say(Decision::Suspend),
                Some(first) => Decision::Open(first.member),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_ids::Env;
    use proptest::prelude::*;

    use super::*;

    fn broken(env: &Env, unannounced: bool, busy: bool) -> Broken {
        Broken { member: env.id(), unannounced, busy }
    }

    const HOUR: Breaker = Breaker { most: 2, window: SignedDuration::from_hours(1) };

    #[test]
    fn each_mode_does_what_it_says() {
        let env = Env::for_tests(1);
        let now = env.now();
        let (one, two) = (broken(&env, true, false), broken(&env, false, false));
        let decide = |mode, past: &[Timestamp], all: &[Broken]| consider(mode, HOUR, past, all, false, now);
        assert_eq!(decide(RepairMode::Off, &[], &[one, two]), Decision::Nothing);
        assert_eq!(decide(RepairMode::Propose, &[], &[one, two]), Decision::Propose(vec![one.member]));
        assert_eq!(decide(RepairMode::Propose, &[], &[two]), Decision::Nothing, "it was proposed before");
        assert_eq!(decide(RepairMode::Automatic, &[], &[two, one]), Decision::Open(two.member));
        assert_eq!(
            decide(RepairMode::Automatic, &[now, now], &[two, one]),
            Decision::Suspend(vec![one.member])
        );
        assert_eq!(decide(RepairMode::Automatic, &[now, now], &[two]), Decision::Nothing);
        let long_ago = now - SignedDuration::from_hours(2);
        assert_eq!(decide(RepairMode::Automatic, &[long_ago, now], &[two]), Decision::Open(two.member));
        let busy = Broken { busy: true, ..one };
        assert_eq!(decide(RepairMode::Automatic, &[], &[busy, two]), Decision::Nothing, "one at a time");
        assert_eq!(
            consider(RepairMode::Automatic, HOUR, &[], &[two], true, now),
            Decision::Nothing,
            "one at a time"
        );
        assert_eq!(decide(RepairMode::Propose, &[], &[busy]), Decision::Nothing, "it is being worked on");
    }

    proptest! {
        /// However often members are found broken, no window contains more replacements than allowed.
        #[test]
        fn the_breaker_never_lets_more_through(most in 0..5_i64, window in 60..7200_i64, looks in prop::collection::vec((1..1800_i64, 1..4_usize), 1..80)) {
            let env = Env::for_tests(7);
            let breaker = Breaker { most, window: SignedDuration::from_secs(window) };
            let (mut now, mut past, mut opened) = (env.now(), Vec::new(), Vec::new());
            for (seconds, count) in looks {
                now += SignedDuration::from_secs(seconds);
                let all: Vec<Broken> = (0..count).map(|_| broken(&env, true, false)).collect();
                match consider(RepairMode::Automatic, breaker, &past, &all, false, now) {
                    Decision::Open(member) => {
                        prop_assert!(all.iter().any(|broken| broken.member == member));
                        past = breaker.recent(&past, now);
                        past.push(now);
                        opened.push(now);
                    }
                    Decision::Suspend(_) => {}
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            for (at, start) in opened.iter().enumerate() {
                let within = opened[at..].iter().filter(|time| **time < *start + breaker.window).count();
                prop_assert!(i64::try_from(within).unwrap() <= most, "{} within one window", within);
            }
        }

        #[test]
        fn only_what_is_broken_and_free_is_touched(modes in 0..3_usize, flags in prop::collection::vec((any::<bool>(), any::<bool>()), 0..6)) {
            let env = Env::for_tests(9);
            let all: Vec<Broken> = flags.iter().map(|(unannounced, busy)| broken(&env, *unannounced, *busy)).collect();
            let free = |member: &MemberId| all.iter().any(|broken| broken.member == *member && !broken.busy);
            match consider(RepairMode::ALL[modes], HOUR, &[], &all, false, env.now()) {
                Decision::Nothing => {}
                Decision::Open(member) => prop_assert!(free(&member)),
                Decision::Propose(members) | Decision::Suspend(members) => {
                    prop_assert!(!members.is_empty() && members.iter().all(free));
                }
            }
        }
    }
}
