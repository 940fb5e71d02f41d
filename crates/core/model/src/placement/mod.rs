//! Which node an allocation gets, and which of its slots.
//!
//! **The cost order.** Of two nodes that can hold a request, the better one is decided by the first of these that
//! differs:
//!
//! 1. the GPUs can share one NVLink island on it;
//! 2. the GPUs can share one NUMA node as well (or at least that, where no island is large enough);
//! 3. fewer of its GPUs are left over (`pack`, the default), or more are (`spread`);
//! 4. its id is lower.
//!
//! A request without GPUs crosses nothing, and under either strategy goes where the fewest GPUs are free, so that machines
//! without any are used first. An exclusive request fits only a node of which nothing is held, and takes all of it; the GPUs
//! beyond its request count as left over, and are kept few under either strategy.
//!
//! Within the node, of all sets of free slots that are large enough, the best is decided likewise by: whether it crosses
//! islands; whether it crosses NUMA nodes; how many free slots are left over in the islands that it touches; how many in the
//! NUMA nodes that it touches; the slots' ordinals, the lower the better. So an island that is broken already is used up
//! before a whole one is broken.
//!
//! The planner never reads the fleet. A node's [`Fit`] holds everything that the first three keys need, as a number that the
//! store indexes: the planner sorts the few distinct fits into [`tiers`], and the store finds the node with the lowest id in
//! the first tier with a recent heartbeat. A silent node is never chosen, whatever its state: its state changes only with a
//! loss decision, which the mass-loss breaker may hold back. Passing every candidate node to the planner was rejected: a
//! fleet has thousands of nodes and a few dozen fits. So was a score in place of the order: a weighted sum cannot explain
//! its choice.

mod ask;
mod cost;
mod fit;
#[cfg(test)]
mod oracle;
mod resource;
mod shortage;
mod slots;

pub use ask::{Ask, Strategy};
pub use cost::{Cost, cost, rank, tiers};
pub use fit::Fit;
pub use resource::Resource;
pub use shortage::{FreeNode, Room, Shortage, ask_for, rooms_of, shortage, take_from};
pub use slots::{FreeSlot, choose_slots};
