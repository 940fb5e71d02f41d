//! `muster key generate`: creates a publisher's key pair. The private key is written locally and sent nowhere.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command, ValueHint};
use muster_trust::PrivateKey;
use serde_json::json;

use crate::context::{Context, Output, say};
use crate::examples;
use crate::failure::{Exit, Failure, Result};
use crate::operate::show;
use crate::options::with_options;

/// Returns the verbs that do not call the API.
pub(crate) fn verbs() -> Vec<Command> {
    let generate = Command::new("generate")
        .about("Create a key pair to sign artifacts, in two files")
        .long_about(
            "Create a key pair to sign artifacts: FILE, readable only by you, and FILE.pub to publish. It is \
             an ECDSA key on P-256, as cosign's are, and not encrypted: store FILE like a secret. No server \
             is involved.",
        )
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_hint(ValueHint::FilePath)
                .help("File of the private key"),
        )
        .after_help(examples::of("key generate").unwrap_or_default());
    vec![with_options(generate)]
}

/// Generates a key pair.
pub(crate) fn generate(context: &Context, matches: &ArgMatches) -> Result<()> {
    let file = PathBuf::from(matches.get_one::<String>("file").map(String::as_str).unwrap_or_default());
    let mut public = file.clone().into_os_string();
    public.push(".pub");
    let public = PathBuf::from(public);
    for path in [&file, &public] {
        if path.symlink_metadata().is_ok() {
            return Err(there(path));
        }
    }
    let key = PrivateKey::generate();
    write(&file, 0o600, key.to_pem().as_bytes())?;
    write(&public, 0o644, key.public().to_pem().as_bytes())?;
    let fingerprint = key.public().fingerprint();
    match context.output {
        Output::Table => say(&format!(
            "{}: the private key; keep it secret\n{}: the public key, {fingerprint}\nnext: muster key create NAME --file {}\n",
            file.display(),
            public.display(),
            public.display()
        )),
        Output::Name => say(&format!("{fingerprint}\n")),
        Output::Json => {
            let answer = json!({"private_key": file.display().to_string(), "public_key": public.display().to_string(), "fingerprint": fingerprint});
            show(context, &["key", "generate"], answer)
        }
    }
}

fn there(path: &Path) -> Failure {
    Failure::new(Exit::Conflict, "file_there", format!("{} exists; keys are not overwritten", path.display()))
        .next("choose another name; a lost key cannot be recovered")
}

fn write(path: &Path, mode: u32, bytes: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => there(path),
        _ => Failure::local(&format!("{} cannot be written", path.display()), error),
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed)
}
