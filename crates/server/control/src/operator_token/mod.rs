//! Tokens for the accounts under which apps are operated in consumers' projects.

mod mint;

pub use mint::mint;
