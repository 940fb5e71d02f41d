//! The wire of agents over real TLS, on real databases.

mod agent;
mod joins;
mod loss;
mod refusals;
mod work;
