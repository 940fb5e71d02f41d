//! The manifest's lint, configuration validation and compatibility, from outside.

mod adapters;
mod apps;
mod config;
mod example;
mod lint;
mod mutated;
