//! Cells on the real kernel. As root, because only root can make them.

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
