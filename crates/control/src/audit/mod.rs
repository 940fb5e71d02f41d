//! The audit: who asked for what, with what result.

mod export;
mod head;
mod list;

pub use export::export;
pub use head::head;
pub use list::list;

use muster_model::audit::Sealed;
use serde_json::value::RawValue;

use crate::refuse::{Result, refuse};

/// An entry on the wire. The record stands there letter for letter as it was hashed, so that anybody can hash it again.
#[derive(serde::Serialize)]
struct Line<'e> {
    chain: &'e str,
    sequence: i64,
    previous_hash: &'e str,
    hash: &'e str,
    record: &'e RawValue,
}

fn line(sealed: &Sealed) -> Result<String> {
    let corrupt = |_| refuse(muster_store::StoreError::Corrupt("an audit entry"));
    let record: &RawValue = serde_json::from_str(&sealed.entry_text).map_err(corrupt)?;
    let line = Line {
        chain: &sealed.chain,
        sequence: sealed.sequence,
        previous_hash: &sealed.previous_hash,
        hash: &sealed.hash,
        record,
    };
    serde_json::to_string(&line).map_err(corrupt)
}
