//! `muster artifact sign`: attaches a signature to an artifact, in the formats of cosign and model_signing.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use bytes::Bytes;
use clap::{Arg, ArgMatches, Command, ValueHint};
use muster_trust::{Attachment, Descriptor, Digest, PrivateKey, bundle, simple};
use serde_json::Value;
use zeroize::Zeroizing;

use super::content::Content;
use super::pending::Pending;
use super::progress::Progress;
use super::registry::{Fetched, Registry};
use super::upload::send;
use super::{FILES, TITLE, about, artifact_argument, project};
use crate::context::Context;
use crate::examples;
use crate::failure::{Exit, Failure, Result};
use crate::join::project_argument;
use crate::operate::show;

pub(crate) fn command() -> Command {
    Command::new("sign")
        .about("Sign an artifact and verify whether the signature counts")
        .long_about(
            "Sign an artifact and verify whether the signature counts: the project must trust the key \
             (`muster key create`).\n\n\
             The key never leaves this machine. The digest is signed; for an artifact of files, the list of \
             its files, as `model_signing` does it, so that copies of the files can be verified \
             anywhere.\n\n\
             Needs the permissions repository.push and artifact.verify.",
        )
        .arg(artifact_argument())
        .arg(
            Arg::new("key")
                .long("key")
                .value_name("FILE")
                .required(true)
                .value_hint(ValueHint::FilePath)
                .help("The private key, as `muster key generate` or `openssl genpkey` write it"),
        )
        .arg(
            Arg::new("form")
                .long("form")
                .value_name("FORM")
                .value_parser(["bundle", "tag", "both"])
                .default_value("bundle")
                .help("bundle: attached to it, as cosign 3 does; tag: beside it under sha256-….sig, for cosign 1 and 2, where concurrent signers can overwrite each other"),
        )
        .arg(project_argument())
        .after_help(examples::of("artifact sign").unwrap_or_default())
}

/// Runs the command.
pub(crate) async fn sign(context: &Context, matches: &ArgMatches) -> Result<()> {
    let word = |name: &str| matches.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let key = read_key(Path::new(word("key")))?;
    let project = project(context, matches)?;
    let connection = context.connect()?;
    let artifact = about(&connection, "artifact_get", (&project, word("artifact")), None).await?;
    let text = |name: &str| artifact[name].as_str().unwrap_or_default().to_owned();
    let (id, repository, digest) = (text("id"), text("repository"), text("digest"));
    let registry = Registry::of(context, &connection, &project, &repository).await?;
    let found = registry.manifest(&digest).await?.ok_or_else(|| {
        Failure::new(Exit::NotFound, "not_found", format!("the registry does not hold {repository}@{digest}"))
            .next("sign it in the registry that holds it")
    })?;
    let form = word("form");
    if form != "tag" {
        attach_bundle(context, &registry, &key, &found, &repository).await?;
    }
    if form != "bundle" {
        attach_tag(context, &registry, &key, &found).await?;
    }
    let verified = about(&connection, "artifact_verify", (&project, &id), None).await?;
    let trusted = verified["verdict"]["trust"] == "trusted";
    show(context, &["artifact", "verify"], verified)?;
    if !trusted {
        eprintln!(
            "signed, but the project does not trust the key yet; next: muster key create NAME --file {}.pub, then muster artifact verify {}",
            word("key"),
            word("artifact")
        );
    }
    Ok(())
}

/// Reads a private key; one that others can read is refused. The content is checked first, so that a public key passed by
/// mistake gets a specific error.
fn read_key(path: &Path) -> Result<PrivateKey> {
    let shown = path.display();
    let failed = |error: std::io::Error| Failure::local(&format!("the key {shown} cannot be read"), error);
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(failed)?);
    let key = PrivateKey::from_pem(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(Failure::local(
            &format!("{shown} is a private key that other users of this machine can read"),
            "it is not used so",
        )
        .next(format!("chmod 600 {shown}")));
    }
    Ok(key)
}

async fn attach_bundle(
    context: &Context,
    registry: &Registry,
    key: &PrivateKey,
    found: &Fetched,
    repository: &str,
) -> Result<()> {
    let bundle = match files(found)? {
        Some(files) => {
            bundle::sign_files(key, repository, &files).map_err(|error| Failure::usage(error.to_string()))?
        }
        None => bundle::sign_manifest(key, &found.digest),
    };
    let subject = Descriptor {
        media_type: found.media_type.clone(),
        digest: found.digest,
        size: found.bytes.len() as u64,
    };
    let attachment = bundle::attach(&subject, bundle).map_err(|error| Failure::usage(error.to_string()))?;
    let reference = attachment.manifest.descriptor.digest.to_string();
    put(context, registry, attachment, &reference).await
}

async fn attach_tag(context: &Context, registry: &Registry, key: &PrivateKey, found: &Fetched) -> Result<()> {
    let tag = simple::tag(&found.digest);
    let before = match registry.manifest(&tag).await? {
        Some(manifest) => {
            simple::layers(&manifest.bytes).map_err(|error| Failure::usage(error.to_string()))?
        }
        None => Vec::new(),
    };
    let payload = simple::payload(&found.digest, &registry.reference());
    let signature = key.sign(&payload);
    put(context, registry, simple::attach(before, payload, &signature), &tag).await
}

async fn put(context: &Context, registry: &Registry, attachment: Attachment, reference: &str) -> Result<()> {
    let pending = Pending::of(context.cache_path(), registry);
    for blob in attachment.blobs {
        let bar = Progress::silent().begin("", "", blob.descriptor.size);
        send(registry, &pending, &blob.descriptor.digest, &Content::Memory(Bytes::from(blob.bytes)), &bar)
            .await?;
    }
    let manifest = attachment.manifest;
    let put =
        registry.put_manifest(reference, &manifest.descriptor.media_type, Bytes::from(manifest.bytes)).await;
    put.map_err(|trouble| registry.failed(trouble))
}

/// Returns the files of an artifact of files, with their digests.
fn files(found: &Fetched) -> Result<Option<Vec<(String, Digest)>>> {
    let manifest: Value = serde_json::from_slice(&found.bytes).map_err(|error| {
        Failure::new(Exit::Failed, "strange_manifest", format!("the manifest is not JSON: {error}"))
    })?;
    if manifest["artifactType"] != FILES {
        return Ok(None);
    }
    let file = |layer: &Value| {
        let title = layer["annotations"][TITLE].as_str()?;
        Some((title.to_owned(), layer["digest"].as_str()?.parse().ok()?))
    };
    let layers = manifest["layers"].as_array().into_iter().flatten();
    Ok(layers.map(file).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(manifest: &Value) -> Fetched {
        let bytes = Bytes::from(manifest.to_string());
        Fetched { digest: Digest::of(&bytes), bytes, media_type: "m".to_owned() }
    }

    #[test]
    fn the_files_of_an_artifact_are_signed_only_where_all_of_it_is_files() {
        let digest = Digest::of(b"x");
        let layer = serde_json::json!({"digest": digest, "size": 1, "annotations": {TITLE: "a/b"}});
        let made = |kind: &str, layers: &[&Value]| {
            files(&fetched(&serde_json::json!({"artifactType": kind, "layers": layers}))).unwrap()
        };
        assert_eq!(made(FILES, &[&layer]), Some(vec![("a/b".to_owned(), digest)]));
        assert_eq!(made("other", &[&layer]), None);
        assert_eq!(made(FILES, &[&layer, &serde_json::json!({"digest": digest})]), None);
    }

    #[test]
    fn a_key_that_others_may_read_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k");
        std::fs::write(&path, PrivateKey::generate().to_pem().as_bytes()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(read_key(&path).unwrap_err().next.unwrap().starts_with("chmod 600"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(read_key(&path).is_ok());
    }

    #[test]
    fn a_public_key_is_called_one_whoever_may_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("k.pub");
        std::fs::write(&path, PrivateKey::generate().public().to_pem()).unwrap();
        for mode in [0o600, 0o644] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let failure = read_key(&path).unwrap_err();
            let said = "k.pub: this is a public key, and signing needs the private one";
            assert!(failure.detail.ends_with(said), "{}", failure.detail);
            assert_eq!(failure.next, None);
        }
    }
}
