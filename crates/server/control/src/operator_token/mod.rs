//! Tokens for the accounts that operate apps in consumers' projects.

mod mint;

pub use mint::mint;
