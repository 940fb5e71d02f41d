//! Nodes at the terminal: one node with its slot map, and the approval of its hardware.

pub(crate) mod approve;
mod hardware;
pub(crate) mod view;

#[cfg(test)]
pub(crate) mod samples;
