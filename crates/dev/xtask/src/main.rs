//! Writes the files of this repository that are generated from the code, and reports which of them have drifted.
//!
//! They are committed all the same: a change of the contract, of an event or of a permission is then a diff in review, and
//! authors of adapters or of the console need no Rust to get the API document. Build scripts were rejected: their output is
//! not reviewed.

mod downgrade;
mod errors;
mod golden;
mod operations;
mod reference;
mod sdk;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["check"] => golden::check(&root()),
        ["bless"] => golden::bless(&root()),
        _ => usage(),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> Result<()> {
    bail!(
        "run `cargo run -p xtask -- check` to compare the generated files with the committed ones, or `cargo \
         run -p xtask -- bless` to rewrite them"
    )
}

/// Returns the repository root, whatever folder cargo was called from.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

fn read(root: &Path, path: &str) -> Result<String> {
    std::fs::read_to_string(root.join(path)).with_context(|| format!("{path} cannot be read"))
}
