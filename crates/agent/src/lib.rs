//! The node agent. It dials out, never listens; it does what tasks say and reports what it saw.

pub mod inventory;
