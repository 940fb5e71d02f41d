//! Value of a project's secret: from a file, from standard input, or a hidden prompt. Never a flag: other users can read
//! command lines (`ps`), and they stay in the shell's history.

use std::io::{BufRead, Read as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::{Arg, ArgMatches, ValueHint};
use muster_sdk::describe::{Endpoint, Field};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, Result};
use crate::flags::BODY;

/// Maximum size of a value. The server decides; this keeps a wrong file from being read completely.
const LONGEST: u64 = 1 << 20;

/// Reports whether a field is the value of a secret, which may be binary, and not a typed password.
pub(crate) fn is_content(operation: &Endpoint, field: &Field) -> bool {
    matches!(operation.id.as_str(), "secret_create" | "secret_rotate") && field.name == "value"
}

/// Reports whether a field is derived from the value.
pub(crate) fn is_encoding(operation: &Endpoint, field: &Field) -> bool {
    matches!(operation.id.as_str(), "secret_create" | "secret_rotate") && field.name == "encoding"
}

/// Returns the flag for its source.
pub(crate) fn argument(field: &Field) -> Arg {
    Arg::new(format!("{BODY}{}", field.name))
        .long("from-file")
        .value_name("FILE")
        .value_hint(ValueHint::FilePath)
        .help("A file with the content, byte by byte; - for standard input [default: prompts for it]")
}

/// Reads it into the body. `ask` prompts a person, if there is one.
pub(crate) fn fill(
    matches: &ArgMatches,
    body: &mut Map<String, Value>,
    input: &mut dyn BufRead,
    ask: impl FnOnce() -> Result<Option<String>>,
) -> Result<()> {
    let source = matches.try_get_one::<String>(&format!("{BODY}value")).ok().flatten();
    let content = match source.map(String::as_str) {
        Some("-") => whole(input, "standard input")?,
        Some(path) => {
            let file = std::fs::File::open(path)
                .map_err(|error| Failure::usage(format!("{path} cannot be read: {error}")))?;
            whole(file, path)?
        }
        // A whole body already contains it.
        None if body.contains_key("value") => return Ok(()),
        None => match ask()? {
            Some(typed) => typed.into_bytes(),
            None => {
                return Err(Failure::usage("the content is missing, and there is no terminal to prompt at")
                    .next("give --from-file FILE, or --from-file - and write it to standard input"));
            }
        },
    };
    if content.is_empty() {
        return Err(Failure::usage("the content is empty")
            .next("give --from-file FILE with a file that is not empty"));
    }
    if content.ends_with(b"\n") && content.iter().filter(|byte| **byte == b'\n').count() == 1 {
        eprintln!("the content ends with a newline, which is kept; `printf %s` writes none");
    }
    match String::from_utf8(content) {
        Ok(text) => body.insert("value".to_owned(), json!(text)),
        Err(bytes) => {
            body.insert("encoding".to_owned(), json!("base64"));
            body.insert("value".to_owned(), json!(STANDARD.encode(bytes.as_bytes())))
        }
    };
    Ok(())
}

fn whole(source: impl std::io::Read, name: &str) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    source
        .take(LONGEST + 1)
        .read_to_end(&mut content)
        .map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
    if content.len() as u64 > LONGEST {
        return Err(Failure::usage(format!("{name} is too long for a secret"))
            .next("push it as an artifact, encrypted, and keep the key as the secret"));
    }
    Ok(content)
}
