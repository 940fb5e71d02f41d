//! Cells on the real kernel. Needs root to create them.

mod act;
mod command;
mod crash;
mod file;
mod isolation;
mod leftover;
mod life;
mod limit;
mod log;
mod secret;
mod service;
mod site;
mod witness;
