//! Adapters against a fake platform with the adapter API, over real HTTP.

mod commands;
mod guide;
mod leases;
mod logging;
mod person;
#[path = "../platform/mod.rs"]
mod platform;
mod projects;
mod python;
mod repeats;
mod shared;
mod stopping;
