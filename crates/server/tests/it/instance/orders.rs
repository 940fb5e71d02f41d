//! Orders about members that meet others, and what an instance is told while it is protected or on its way out.

use muster_model::instance::Instance;
use muster_testkit::Database;
use serde_json::json;

use super::{Good, Stage};
use crate::cell::until;
