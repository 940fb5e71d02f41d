//! HTTP glue around the use-cases: the router is made of the contract's table, so a route that is not in the document
//! cannot be served, and an operation without a handler cannot start.

mod bind;
mod door;
mod hosts;
mod input;
mod listen;
mod node;
mod probes;
mod registry;
mod respond;
mod run;
mod schema;
mod settings;
mod stream;
mod unique;
mod websocket;

pub use bind::handled;
pub use run::{Running, StartError, start};
pub use settings::{Setting, Settings, SettingsError, TABLE};
