//! How long a replacement waits for a member that fences itself. Pure.
//!
//! The agent counts its limit from the last response that it got, and the platform from the moment at which it declared the
//! node unreachable. `docs/decisions/0049-how-long-to-wait-for-self-fencing.md` derives the bound.

use jiff::SignedDuration;

/// Time between a poll's last moment at the server and its response at the agent, which gives up after that.
const RESPONSE: SignedDuration = SignedDuration::from_secs(15);
/// Interval at which the agent compares the time since its last contact with the limit.
const CHECK: SignedDuration = SignedDuration::from_secs(1);
/// Time for the kernel to end the killed processes of a cell, on a loaded machine.
const KILL: SignedDuration = SignedDuration::from_secs(4);

/// Returns the wait from the moment at which a node was declared unreachable until its cells with this limit have certainly
/// ended. `silent` is the age of a last heartbeat at which a node counts as silent: the agent raises a shorter limit to two
/// polls, which are less than that.
pub(super) fn self_fencing_wait(limit: SignedDuration, silent: SignedDuration) -> SignedDuration {
    let ends = limit.max(silent) + RESPONSE + CHECK + KILL;
    // Twice a long limit covers any difference between the rates of two clocks.
    ends.max(limit * 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timing;

    /// Returns when the last process of a cell ends, after the verdict about its node, in the worst case. The rules of the
    /// agent are written out here a second time, because its crate is not a dependency of the engine.
    fn ends_after_verdict(limit: i64, heartbeat: i64, kill: f64) -> f64 {
        let poll = (heartbeat * 3 / 4).clamp(1, 60);
        // Three heartbeats without a recorded one; it is recorded half a heartbeat late.
        let last_poll = -2.5 * heartbeat as f64;
        let last_response = last_poll + poll as f64 + 15.0;
        let effective = limit.max(5).max(2 * poll) as f64;
        last_response + effective * 1.001 + 1.0 + kill
    }

    #[test]
    fn no_cell_outlives_the_wait_whatever_the_limit_and_the_heartbeat() {
        for heartbeat in 1..=120_i64 {
            let silent = Timing::silent_after(SignedDuration::from_secs(heartbeat));
            for limit in (5..=300).chain([3_600, 86_400]) {
                let wait = self_fencing_wait(SignedDuration::from_secs(limit), silent);
                let ends = ends_after_verdict(limit, heartbeat, 4.0);
                assert!(ends <= wait.as_secs_f64(), "limit {limit}, heartbeat {heartbeat}: {ends} > {wait}");
            }
        }
    }

    #[test]
    fn a_wait_is_never_shorter_than_twice_the_limit_nor_longer_than_it_needs_to_be() {
        let wait = |limit, silent| {
            let (limit, silent) = (SignedDuration::from_secs(limit), SignedDuration::from_secs(silent));
            self_fencing_wait(limit, silent).as_secs()
        };
        // A short limit: the agent's own delays decide, then the limit to which it raises a shorter one.
        assert_eq!(wait(5, 3), 25);
        assert_eq!(wait(5, 25), 45);
        // From there on twice the limit does.
        assert_eq!((wait(19, 3), wait(20, 3), wait(21, 3)), (39, 40, 42));
        assert_eq!((wait(60, 25), wait(120, 25), wait(86_400, 25)), (120, 240, 172_800));
    }
}
