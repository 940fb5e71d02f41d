//! Node commands: a node with its slot map, and hardware approval.

pub(crate) mod approve;
mod hardware;
pub(crate) mod view;

#[cfg(test)]
pub(crate) mod samples;
