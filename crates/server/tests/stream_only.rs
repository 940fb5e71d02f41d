#[path = "it/stream/mod.rs"]
mod stream;
