//! The manifest's lint, its configuration's check and its compatibility, from outside.

mod adapters;
mod apps;
mod config;
mod example;
mod lint;
mod mutated;
