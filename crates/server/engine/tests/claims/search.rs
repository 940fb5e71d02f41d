//! Checks whether the history of a lock is linearizable: Wing and Gong's search with Lowe's memoization.
//!
//! A history is linearizable if every event can be assigned one point between its two times so that a sequential lock, given
//! the events in that order, would have returned the same results. The search tries as the next event each one that began
//! before any other remaining one had ended; a set of events already tried with the same holder is not tried again.

use std::collections::HashSet;

use muster_ids::AllocationId;

use crate::history::{Deed, Event};

/// Returns the next holder of a lock; `None` if the operation is not allowed in this state.
fn step(holder: Option<AllocationId>, deed: Deed) -> Option<Option<AllocationId>> {
    match deed {
        Deed::Claim(by) => holder.is_none().then_some(Some(by)),
        Deed::Release(by) => (holder == Some(by)).then_some(None),
        Deed::Saw(seen) => (holder == seen).then_some(holder),
    }
}

/// A node of the search: all events before `from` are placed, and so are those in `ahead`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    from: usize,
    ahead: Vec<usize>,
    holder: Option<AllocationId>,
}

impl Place {
    /// Returns the same node with one more event placed.
    fn with(&self, event: usize, holder: Option<AllocationId>) -> Self {
        let (mut from, mut ahead) = (self.from, self.ahead.clone());
        ahead.push(event);
        ahead.sort_unstable();
        while ahead.first() == Some(&from) {
            ahead.remove(0);
            from += 1;
        }
        Self { from, ahead, holder }
    }

    /// Returns the candidates for the next event: those that began before any remaining one had ended. `events` are sorted
    /// by their start.
    fn next<'a>(&'a self, events: &'a [Event]) -> impl Iterator<Item = usize> + 'a {
        let left = move || (self.from..events.len()).filter(|event| !self.ahead.contains(event));
        let mut first_end = u64::MAX;
        for event in left() {
            // An event that starts after that end, and so all later ones, cannot precede it.
            if events[event].invoked > first_end {
                break;
            }
            first_end = first_end.min(events[event].returned);
        }
        left().take_while(move |event| events[*event].invoked <= first_end)
    }
}

/// Checks that one slot's history, starting free, is linearizable. The error is the first event that the search could never
/// place.
pub(crate) fn linearizable(history: &[Event]) -> Result<(), Event> {
    let mut events = history.to_vec();
    events.sort_by_key(|event| (event.invoked, event.returned));
    let mut open = vec![Place { from: 0, ahead: Vec::new(), holder: None }];
    let mut seen = HashSet::new();
    let mut farthest = 0;
    while let Some(place) = open.pop() {
        if place.from == events.len() {
            return Ok(());
        }
        farthest = farthest.max(place.from);
        let next: Vec<Place> = place
            .next(&events)
            .filter_map(|event| Some(place.with(event, step(place.holder, events[event].deed)?)))
            .collect();
        // The earliest is popped first: it is nearly always right.
        open.extend(next.into_iter().rev().filter(|next| seen.insert(next.clone())));
    }
    Err(events[farthest])
}

#[cfg(test)]
mod tests {
    use muster_ids::{SlotId, TypedId as _};
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;

    fn id(number: u8) -> AllocationId {
        AllocationId::from_uuid(Uuid::from_u128(number.into()))
    }

    fn event(deed: Deed, invoked: u64, returned: u64) -> Event {
        Event { worker: 0, slot: SlotId::from_uuid(Uuid::nil()), deed, invoked, returned }
    }

    fn claim(by: u8, invoked: u64, returned: u64) -> Event {
        event(Deed::Claim(id(by)), invoked, returned)
    }

    fn release(by: u8, invoked: u64, returned: u64) -> Event {
        event(Deed::Release(id(by)), invoked, returned)
    }

    fn saw(by: Option<u8>, invoked: u64, returned: u64) -> Event {
        event(Deed::Saw(by.map(id)), invoked, returned)
    }

    #[test]
    fn one_after_the_other_is_linearizable() {
        let history =
            [claim(1, 0, 1), release(1, 2, 3), claim(2, 4, 5), saw(Some(2), 6, 7), release(2, 8, 9)];
        assert_eq!(linearizable(&history), Ok(()));
        assert_eq!(linearizable(&[]), Ok(()));
    }

    #[test]
    fn a_claim_that_overlaps_the_release_before_it_is_linearizable() {
        assert_eq!(linearizable(&[claim(1, 0, 1), release(1, 2, 6), claim(2, 3, 5)]), Ok(()));
    }

    #[test]
    fn two_claims_without_a_release_between_them_are_refused() {
        let history = [claim(1, 0, 1), claim(2, 2, 3), release(1, 4, 5), release(2, 6, 7)];
        assert_eq!(linearizable(&history), Err(history[1]));
    }

    #[test]
    fn two_claims_at_the_same_time_are_refused_too() {
        assert!(linearizable(&[claim(1, 0, 9), claim(2, 0, 9)]).is_err());
    }

    #[test]
    fn release_without_a_claim_or_by_another_is_refused() {
        assert!(linearizable(&[release(1, 0, 1)]).is_err());
        assert!(linearizable(&[claim(1, 0, 1), release(2, 2, 3)]).is_err());
        assert!(linearizable(&[claim(1, 0, 1), release(1, 2, 3), release(1, 4, 5)]).is_err());
    }

    #[test]
    fn a_look_that_saw_what_was_over_or_had_not_begun_is_refused() {
        let held = [claim(1, 0, 1), release(1, 10, 11)];
        let with = |look: Event| linearizable(&[held[0], held[1], look]);
        assert_eq!(with(saw(Some(1), 5, 6)), Ok(()));
        assert!(with(saw(None, 5, 6)).is_err());
        assert!(with(saw(Some(1), 12, 13)).is_err());
        assert!(with(saw(Some(2), 5, 6)).is_err());
    }

    #[test]
    fn two_looks_that_disagree_about_the_order_are_refused() {
        // The claim is in progress throughout; a read that observed it cannot be followed by one that did not.
        let claim = claim(1, 0, 100);
        assert_eq!(linearizable(&[claim, saw(None, 10, 11), saw(Some(1), 20, 21)]), Ok(()));
        assert!(linearizable(&[claim, saw(Some(1), 10, 11), saw(None, 20, 21)]).is_err());
    }

    /// A second criterion for locks without reads and with holders that release only after their claim returned: from the
    /// end of the claim to the start of the release it is certainly held, and if no two such spans overlap, they give the
    /// order.
    fn by_spans(history: &[Event]) -> bool {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for claim in history.iter().filter(|event| matches!(event.deed, Deed::Claim(_))) {
            let Deed::Claim(by) = claim.deed else { continue };
            let release = history.iter().find(|event| event.deed == Deed::Release(by));
            spans.push((claim.returned, release.map_or(u64::MAX, |release| release.invoked)));
        }
        spans.sort_unstable();
        spans.windows(2).all(|pair| pair[0].1 <= pair[1].0)
    }

    /// Up to six holders with random times, some of which never release.
    fn locks() -> impl Strategy<Value = Vec<Event>> {
        let holder = (0u64..40, 0u64..6, 0u64..6, 0u64..6, any::<bool>());
        proptest::collection::vec(holder, 0..6).prop_map(|holders| {
            let mut events = Vec::new();
            for (by, (start, claiming, holding, releasing, lets_go)) in (0u8..).zip(holders) {
                let got = start + claiming;
                events.push(claim(by, start, got));
                if lets_go {
                    events.push(release(by, got + holding, got + holding + releasing));
                }
            }
            events
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_search_and_the_spans_agree(history in locks()) {
            prop_assert_eq!(linearizable(&history).is_ok(), by_spans(&history), "{:#?}", history);
        }
    }
}
