//! Every public function of the store, on both databases, one file a noun.

mod audit;
mod capacity;
mod database;
mod delivery;
mod event;
mod idempotency;
mod lease;
mod node;
mod operators;
mod presence;
mod project;
mod refusal;
mod replica;
mod role_binding;
mod seal;
mod sealing_key;
mod service_account;
mod slot;
mod sweep;
mod tenant;
mod token;
mod tx;
mod user;
mod webhook;
