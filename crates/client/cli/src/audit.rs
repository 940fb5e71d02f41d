//! `muster audit export` and `muster audit verify`.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use clap::ArgMatches;
use muster_sdk::describe::Description;
use muster_sdk::{Arguments, Body, Chunks};
use muster_trust::PublicKey;
use serde_json::json;

use crate::chain::{Finding, Tampering, Unverified, Verified, verify};
use crate::context::{Context, Output, say};
use crate::failure::{Exit, Failure, Result};
use crate::place::Place;
use crate::printable::printable_json;
use crate::signed_heads::SignedHeads;

/// Downloads a chain. A file is complete or absent, and is verified in place.
pub(crate) async fn export(context: &Context, matches: &ArgMatches) -> Result<()> {
    let place = Place::of(matches, context);
    let operation = Description::embedded().endpoint("audit_export");
    let operation = operation.ok_or_else(|| Failure::usage("the API no longer has audit export"))?;
    let arguments = Arguments { query: place.query(), ..Arguments::default() };
    let called = |error| Failure::call(Some(operation), error);
    let Body::Stream(chunks) = context.connect()?.call(operation, &arguments).await.map_err(called)?.body
    else {
        return Err(Failure::new(Exit::Failed, "strange_answer", "the response is not a download"));
    };
    let Some(path) = matches.get_one::<String>("file") else {
        return copy(chunks, &mut std::io::stdout().lock()).await;
    };
    let failed = |error: std::io::Error| Failure::local(&format!("{path} cannot be written"), error);
    let part = format!("{path}.part");
    // Audit entries name people and their actions: readable only by the owner.
    let options = File::options().write(true).create(true).truncate(true).mode(0o600).open(&part);
    let mut file = options.map_err(failed)?;
    if let Err(failure) = copy(chunks, &mut file).await {
        let _ = std::fs::remove_file(&part);
        return Err(failure);
    }
    file.sync_all().map_err(failed)?;
    std::fs::rename(&part, path).map_err(failed)?;
    eprintln!("wrote the audit chain of {} to {path}", place.words());
    let file = File::open(path).map_err(failed)?;
    match verify(BufReader::new(file), None, &SignedHeads::default()) {
        // A chain without sealed entries is valid, unless an expected head was given.
        Err(Unverified::Found(Finding { line: 0, .. })) => {
            eprintln!("it holds no rows yet");
            Ok(())
        }
        result => tell(context, path, result),
    }
}

async fn copy(mut chunks: Chunks, to: &mut dyn Write) -> Result<()> {
    while let Some(piece) = chunks.next().await.map_err(|error| Failure::call(None, error))? {
        to.write_all(&piece)?;
    }
    Ok(to.flush()?)
}

/// Verifies an export, offline.
pub(crate) fn verify_file(context: &Context, matches: &ArgMatches) -> Result<()> {
    let path = matches.get_one::<String>("file").map(String::as_str).unwrap_or_default();
    let head = matches.get_one::<String>("head").map(String::as_str);
    let file: Box<dyn BufRead> = if path == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let opened = File::open(Path::new(path));
        Box::new(BufReader::new(
            opened.map_err(|error| Failure::local(&format!("{path} cannot be read"), error))?,
        ))
    };
    let heads = signed_heads(matches)?;
    tell(context, path, verify(file, head, &heads))
}

/// Returns the heads from `--heads`, verified with the keys of `--public-key`.
fn signed_heads(matches: &ArgMatches) -> Result<SignedHeads> {
    let Some(path) = matches.get_one::<String>("heads") else { return Ok(SignedHeads::default()) };
    let unreadable = |path: &str, error| Failure::local(&format!("{path} cannot be read"), error);
    let mut keys = Vec::new();
    for file in matches.get_many::<String>("public_key").into_iter().flatten() {
        let text = std::fs::read_to_string(file).map_err(|error| unreadable(file, error))?;
        let key = PublicKey::from_pem(&text).map_err(|error| Failure::usage(format!("{file}: {error}")))?;
        keys.push(key);
    }
    let file = File::open(path).map_err(|error| unreadable(path, error))?;
    SignedHeads::read(BufReader::new(file), &keys).map_err(|why| {
        Failure::new(Exit::Failed, "altered", format!("{path} is not verified: {why}"))
            .next("pass the server's public signing key: audit.key.pub beside its audit.key")
    })
}

fn tell(context: &Context, path: &str, result: std::result::Result<Verified, Unverified>) -> Result<()> {
    let verified = match result {
        Ok(verified) => verified,
        Err(Unverified::Unreadable(error)) => {
            return Err(Failure::local(&format!("{path} cannot be read"), error));
        }
        Err(Unverified::Found(finding)) => return Err(not_verified(path, &finding)),
    };
    if context.output == Output::Json {
        return say(&printable_json(&format!(
            "{:#}\n",
            json!({
                "verified": true, "chain": verified.chain, "rows": verified.rows, "first": verified.first,
                "last": verified.last, "hash": verified.last_hash, "built_on": verified.built_on,
                "kept_head_at": verified.kept_head_at, "signed_heads": verified.signed_heads,
            })
        )));
    }
    let Verified { chain, rows, first, last, last_hash, built_on, kept_head_at, signed_heads } = verified;
    say(&format!(
        "verified: {rows} rows of the chain {chain}, {first} to {last}, the last with hash\n{last_hash}\n"
    ))?;
    if let Some(before) = built_on {
        eprintln!(
            "the rows before {first} are not in the file; the first one builds on {before}, which is taken as given. \
             If retention removed them, `muster audit head` shows this hash as pruned_hash"
        );
    }
    if signed_heads > 0 {
        eprintln!("{signed_heads} signed heads agree with it");
        return Ok(());
    }
    match kept_head_at {
        Some(at) if at == last => eprintln!("its last row is the given head"),
        Some(at) => eprintln!("the given head is row {at}; {} rows follow it", last - at),
        None => eprintln!(
            "store this hash elsewhere: with --head, a later check also finds rows removed at the end"
        ),
    }
    Ok(())
}

fn not_verified(path: &str, finding: &Finding) -> Failure {
    let (code, how) = match finding.how {
        Tampering::Altered => ("altered", "altered at"),
        Tampering::Removed => ("removed", "removed before"),
        Tampering::Reordered => ("reordered", "reordered at"),
        Tampering::CutOff => ("removed", "removed after"),
    };
    let row = finding.sequence.map_or_else(String::new, |sequence| format!(" (row {sequence})"));
    let detail = match finding.line {
        0 => format!("{path} is not verified: {}", finding.why),
        line => format!("{path} is not verified: {how} line {line}{row}: {}", finding.why),
    };
    Failure::new(Exit::Failed, code, detail)
        .next("compare with another copy of the export; the rows before it are consistent")
}
