//! Operations on an instance as a whole, and their steps, one for each file. They compose those of its members.

mod create;
mod decommission;
mod grow;
mod prepare;
mod rollback;
mod rolling_update;
mod scale;
mod shrink;
mod start;
mod stop;
mod subject;
mod unshare;
mod upgrade;
mod verify_running;
mod verify_stopped;

pub use create::CREATE;
pub use decommission::DECOMMISSION;
pub use rollback::ROLLBACK;
pub use scale::SCALE;
pub use upgrade::UPGRADE;
