//! Images on a node: ordinary ones, hostile ones, and concurrent callers.

mod attack;
mod budget;
mod canary;
mod corpus;
mod layout;
mod ordinary;
mod property;
mod refusal;
mod room;
mod seal;
mod together;
