//! Offline verification of an exported audit chain.
//!
//! This is deliberately a second implementation, without any code of the one that writes the chain: an auditor must not
//! have to trust the platform's own code. The rule is public: a row's hash is SHA-256 over the previous hash, a line
//! feed, its number, a line feed, and the record exactly as it appears in the line.

use std::io::BufRead;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::signed_heads::SignedHeads;

/// Hash before the first row.
const GENESIS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// One line of an export. Additional members would not be covered by the hash, so they are rejected.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row<'l> {
    chain: String,
    sequence: i64,
    previous_hash: String,
    hash: String,
    #[serde(borrow)]
    record: &'l RawValue,
}

/// Fields of a record that identify its chain.
#[derive(Deserialize)]
struct Belongs {
    tenant_id: Option<String>,
}

/// A verified chain.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) chain: String,
    pub(crate) rows: u64,
    pub(crate) first: i64,
    pub(crate) last: i64,
    pub(crate) last_hash: String,
    /// Hash that the first row builds on, if it is not the first of its chain.
    pub(crate) built_on: Option<String>,
    /// Row with the hash that was kept elsewhere.
    pub(crate) kept_head_at: Option<i64>,
    /// Number of rows that match a signed head.
    pub(crate) signed_heads: u64,
}

/// Kind of tampering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tampering {
    Altered,
    Removed,
    Reordered,
    /// Removed after the last row present.
    CutOff,
}

/// The first invalid row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) how: Tampering,
    /// Line in the file, from 1.
    pub(crate) line: u64,
    /// The row's number, if readable.
    pub(crate) sequence: Option<i64>,
    pub(crate) why: String,
}

/// Reason a file is not verified.
#[derive(Debug)]
pub(crate) enum Unverified {
    Found(Finding),
    Unreadable(std::io::Error),
}

/// Verifies a file. The rows named by the signed `heads` must be present with those hashes. With `head`, a hash kept
/// elsewhere, that row must be present too: a truncated chain is consistent in itself.
pub(crate) fn verify(
    mut file: impl BufRead,
    head: Option<&str>,
    heads: &SignedHeads,
) -> Result<Verified, Unverified> {
    let mut verified = Verified::default();
    let mut line = String::new();
    let mut number = 0;
    while read_line(&mut file, &mut line)? {
        number += 1;
        let row = read_row(&line, number)?;
        if number == 1 {
            verified.chain.clone_from(&row.chain);
            verified.first = row.sequence;
            verified.built_on = (row.sequence != 1).then(|| row.previous_hash.clone());
        } else if row.chain != verified.chain {
            let why =
                format!("it belongs to the chain {}, the rows before it to {}", row.chain, verified.chain);
            return found(Tampering::Altered, number, &row, why);
        } else if row.sequence != verified.last + 1 {
            return misplaced(&mut file, &verified, number, &row);
        }
        own_hash(number, &row)?;
        links(number, &row, &verified)?;
        verified.signed_heads += u64::from(as_signed(number, &row, heads)?);
        verified.rows += 1;
        verified.last = row.sequence;
        verified.last_hash = row.hash;
        if head.is_some_and(|head| head.eq_ignore_ascii_case(&verified.last_hash)) {
            verified.kept_head_at = Some(verified.last);
        }
    }
    whole(verified, head, heads)
}

/// Compares the row with the head signed at it: rewriting it, or any row before it, changes its hash.
fn as_signed(line: u64, row: &Row<'_>, heads: &SignedHeads) -> Result<bool, Unverified> {
    match heads.at(&row.chain, row.sequence) {
        Some(signed) if signed.hash != row.hash => {
            let why = format!(
                "the head signed at {} has the hash {}: this row or an earlier one was rewritten",
                signed.signed_at, signed.hash
            );
            found(Tampering::Altered, line, row, why)
        }
        signed => Ok(signed.is_some()),
    }
}

/// Verifies the row on its own: its hash, and that it belongs to this chain.
fn own_hash(line: u64, row: &Row<'_>) -> Result<(), Unverified> {
    let mut hasher = Sha256::new();
    hasher.update(format!("{}\n{}\n", row.previous_hash, row.sequence));
    hasher.update(row.record.get());
    let computed: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if computed != row.hash {
        let why = "its record, number or hashes differ from the sealed ones".to_owned();
        return found(Tampering::Altered, line, row, why);
    }
    // The chain's name is not hashed, but the record's tenant is.
    let belongs: Option<Belongs> = serde_json::from_str(row.record.get()).ok();
    let home = belongs.and_then(|belongs| belongs.tenant_id).unwrap_or_else(|| "platform".to_owned());
    if home != row.chain {
        let why = format!("its record belongs to the chain {home}, not to {}", row.chain);
        return found(Tampering::Altered, line, row, why);
    }
    Ok(())
}

/// Verifies the link to the previous row.
fn links(line: u64, row: &Row<'_>, before: &Verified) -> Result<(), Unverified> {
    let expected = match (line, row.sequence) {
        (1, 1) => GENESIS,
        (1, _) => return Ok(()),
        _ => before.last_hash.as_str(),
    };
    if row.previous_hash != expected {
        let why = "it does not build on the row before it: one of the two was replaced".to_owned();
        return found(Tampering::Altered, line, row, why);
    }
    Ok(())
}

/// Classifies a row with an unexpected number: the rest of the file shows whether the missing one was moved or removed.
fn misplaced(
    file: &mut impl BufRead,
    before: &Verified,
    line: u64,
    row: &Row<'_>,
) -> Result<Verified, Unverified> {
    let expected = before.last + 1;
    if row.sequence <= before.last {
        let why = match row.sequence >= before.first {
            true => format!("it is repeated after row {}", before.last),
            false => format!("it follows row {}", before.last),
        };
        return found(Tampering::Reordered, line, row, why);
    }
    let mut text = String::new();
    let mut number = line;
    while read_line(file, &mut text)? {
        number += 1;
        if serde_json::from_str::<Row<'_>>(&text).is_ok_and(|other| other.sequence == expected) {
            let why = format!("it stands in place of row {expected}, which is on line {number}");
            return found(Tampering::Reordered, line, row, why);
        }
    }
    let missing = row.sequence - expected;
    let why = match missing {
        1 => format!("row {expected} before it is missing"),
        _ => format!("rows {expected} to {} before it are missing", row.sequence - 1),
    };
    found(Tampering::Removed, line, row, why)
}

/// Verifies the end of the chain.
fn whole(verified: Verified, head: Option<&str>, heads: &SignedHeads) -> Result<Verified, Unverified> {
    let ends = |why: String| {
        let sequence = (verified.rows > 0).then_some(verified.last);
        Err(Unverified::Found(Finding { how: Tampering::CutOff, line: verified.rows, sequence, why }))
    };
    if let Some((sequence, signed)) =
        heads.last(&verified.chain).filter(|(sequence, _)| *sequence > verified.last)
    {
        return ends(format!(
            "row {sequence} was signed at {}: rows at the end were removed, or the export is older",
            signed.signed_at
        ));
    }
    match head {
        Some(_) if verified.kept_head_at.is_some() => Ok(verified),
        Some(head) if verified.rows == 0 && head == GENESIS => Ok(verified),
        Some(head) => ends(format!(
            "no row has the hash {head}: rows at the end were removed, or the whole chain was rewritten"
        )),
        None if verified.rows == 0 => ends("the file holds no row".to_owned()),
        None => Ok(verified),
    }
}

fn read_line(file: &mut impl BufRead, line: &mut String) -> Result<bool, Unverified> {
    line.clear();
    let length = file.read_line(line).map_err(Unverified::Unreadable)?;
    Ok(length > 0)
}

fn read_row(line: &str, number: u64) -> Result<Row<'_>, Unverified> {
    serde_json::from_str(line.trim_end_matches(['\n', '\r'])).map_err(|error| {
        let why = format!("it is not a row of an export: {error}");
        Unverified::Found(Finding { how: Tampering::Altered, line: number, sequence: None, why })
    })
}

fn found<T>(how: Tampering, line: u64, row: &Row<'_>, why: String) -> Result<T, Unverified> {
    Err(Unverified::Found(Finding { how, line, sequence: Some(row.sequence), why }))
}

#[cfg(test)]
mod tests;
