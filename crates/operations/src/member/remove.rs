//! Removing a member: drain it, unless it is drained or that is forced · the adapter forgets it · verify · destroy its cell ·
//! wipe and release what was made for it · see that nothing is left.

use super::conclude::CONCLUDE;
use super::release::RELEASE;
use super::take_down::TAKE_DOWN;
use super::take_out::TAKE_OUT;
use super::verify_drained::VERIFY_DRAINED;
use super::verify_withdrawn::VERIFY_WITHDRAWN;
use super::withdraw::WITHDRAW;
use crate::definition::{Abandon, AtDeadline, Definition, OnFailure, nothing_to_settle};

/// `member.remove`. There is no way back from it: what cannot go on is parked, or taken over by one that is forced.
pub const REMOVE: Definition = Definition {
    kind: "member.remove",
    steps: &[TAKE_OUT, VERIFY_DRAINED, WITHDRAW, VERIFY_WITHDRAWN, TAKE_DOWN, RELEASE, CONCLUDE],
    on_failure: OnFailure::Park,
    at_deadline: AtDeadline::Park,
    cancellable: false,
    no_return: None,
    abandon: Abandon::Never,
    unblock_by: "tenant",
    settle: nothing_to_settle,
};
