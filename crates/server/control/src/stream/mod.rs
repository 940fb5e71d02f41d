//! Streams between users and cells: granted by a command, joined once, and relayed between two sockets by the server that
//! was joined. It inspects the sender and the first byte of each message, and stores no content.

mod create;
mod end;
mod grant;
mod guard;
mod hub;
mod join;
mod logs;
mod meet;
mod relay;

pub use create::create;
pub use end::{End, Frame, LARGEST};
pub use hub::{MemberGroup, Streams};
pub use join::{Joined, join};
pub use logs::logs;
pub use meet::meet;
