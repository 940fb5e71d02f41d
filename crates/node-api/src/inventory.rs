//! What a machine has.
