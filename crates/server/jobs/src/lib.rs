//! Background jobs of a server. Each holds a lease in the database, so that one replica runs it at a time; a replica that
//! lost its lease is fenced in its next transaction.

mod deliverer;
mod due;
mod loss;
mod reseal;
mod sealer;
mod sweeper;

pub use deliverer::deliver;
pub use loss::{LossDecision, detect_loss, verdicts};
pub use reseal::reseal;
pub use sealer::{SealError, Sealer};
pub use sweeper::{rewrap, sweep};
