//! HTTP layer around the use-cases. The router is built from the contract's table: a route that is not in the document
//! cannot be served, and a server with an endpoint that has no handler does not start.

mod bind;
mod exchange;
mod hosts;
mod input;
mod listen;
mod node;
mod pipeline;
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
