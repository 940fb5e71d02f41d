//! What this machine has, read from the machine itself.
