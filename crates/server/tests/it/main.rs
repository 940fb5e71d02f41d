//! The API over real HTTP, on real databases.

mod smoke;
