//! Operations on one member, and their steps, one for each file.

mod add;
mod at_rest;
mod claim;
mod destroy_cell;
mod drain;
mod drain_step;
mod fence;
mod finalize;
mod join;
mod provision;
mod publish;
mod pull_image;
mod quarantine;
mod recover;
mod release;
mod remove;
mod replace;
mod reserve;
mod resume;
mod resume_step;
mod self_fencing;
mod share;
mod subject;
mod swap;
mod trust;
mod upgrade;
mod verify_active;
mod verify_drained;
mod verify_withdrawn;
mod withdraw;

pub use add::ADD;
pub(crate) use add::fail_unstarted;
pub use at_rest::at_rest;
pub use drain::DRAIN;
pub(crate) use quarantine::platform_cleanup;
pub use recover::RECOVER;
pub use remove::REMOVE;
pub use replace::REPLACE;
pub(crate) use reserve::release_reserved;
pub use resume::RESUME;
pub use subject::amounts;
pub(crate) use subject::{manifest_of, path};
pub(crate) use swap::is_survivor;
pub use upgrade::UPGRADE;
pub(crate) use verify_withdrawn::VERIFY_WITHDRAWN;
pub(crate) use withdraw::WITHDRAW;

use muster_manifest::Verb;

use crate::{Definition, members};

/// Returns the operations of a verb: on one member, and on several.
pub fn definitions_for(verb: Verb) -> (&'static Definition, &'static Definition) {
    match verb {
        Verb::Add => (&ADD, &members::ADD),
        Verb::Drain => (&DRAIN, &members::DRAIN),
        Verb::Resume => (&RESUME, &members::RESUME),
        Verb::Remove => (&REMOVE, &members::REMOVE),
        Verb::Replace => (&REPLACE, &members::REPLACE),
        Verb::Recover => (&RECOVER, &members::RECOVER),
    }
}
