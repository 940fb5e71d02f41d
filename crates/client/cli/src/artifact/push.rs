//! `muster artifact push`: files or an image into the registry.

use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};

use super::pending::Pending;
use super::progress::Progress;
use super::reference::{Reference, Which, repository_for};
use super::registry::Registry;
use super::source::{self, Document, Parcel, Said};
use super::upload::{Sent, send};
use super::{about, project};
use crate::context::Context;
use crate::examples;
use crate::failure::{Failure, Result};
use crate::join::project_argument;
use crate::operate::show;

pub(crate) fn command() -> Command {
    Command::new("push")
        .override_usage("muster artifact push [OPTIONS] <SOURCE>... [REPOSITORY[:TAG]]")
        .about("Push files or an image and publish them as an artifact")
        .long_about(
            "Push files or an image and publish them as an artifact, a draft.\n\n\
             SOURCE is a folder or files, which become an artifact of files: everything in a folder, by its \
             name. Or it is an image: a folder or an archive in OCI layout, such as `skopeo copy … \
             oci:FOLDER:TAG` and `podman save --format oci-archive` write. The last argument is the \
             repository, optionally with a tag; the default is the source's own name and the beginning of \
             the digest.\n\n\
             Content that the repository has is not sent again. A broken upload continues where it stopped; \
             so does the same command after an interruption.\n\n\
             Needs the permission repository.push.",
        )
        .arg(
            Arg::new("words")
                .value_name("SOURCE")
                .required(true)
                .num_args(1..)
                .value_hint(ValueHint::AnyPath)
                .help("Files, a folder or an image; then the repository, if there is more than one argument"),
        )
        .arg(
            Arg::new("to")
                .long("to")
                .value_name("REPOSITORY[:TAG]")
                .help("The repository; then all arguments are sources"),
        )
        .arg(
            Arg::new("manifest")
                .long("manifest")
                .value_name("NAME")
                .help("Image of an OCI layout with several: by its name in the layout, or its digest"),
        )
        .arg(
            Arg::new("as-files")
                .long("as-files")
                .action(ArgAction::SetTrue)
                .conflicts_with("manifest")
                .help("Push an OCI layout or an image archive as plain files"),
        )
        .arg(project_argument())
        .after_help(examples::of("artifact push").unwrap_or_default())
}

/// Runs the command.
pub(crate) async fn push(context: &Context, matches: &ArgMatches) -> Result<()> {
    let words: Vec<&str> =
        matches.get_many::<String>("words").into_iter().flatten().map(String::as_str).collect();
    let (sources, target) = split(&words, matches.get_one::<String>("to").map(String::as_str))?;
    let project = project(context, matches)?;
    let connection = context.connect()?;
    let registry = Registry::of(context, &connection, &project, &target.repository).await?;
    // Fail early on a missing permission or an unreachable server, before hashing a terabyte.
    registry.has_blob(&muster_trust::Digest::of(b"{}")).await.map_err(|trouble| registry.failed(trouble))?;
    let tag = match &target.which {
        Which::Tag(tag) => Some(tag.as_str()),
        Which::Unsaid => None,
        Which::Digest(_) => {
            return Err(Failure::usage("a digest cannot be chosen: use REPOSITORY or REPOSITORY:TAG"));
        }
    };
    let manifest = matches.get_one::<String>("manifest").map(String::as_str);
    let said = Said { as_files: matches.get_flag("as-files"), manifest, tag };
    let parcel = source::read(&sources, &said, &context.progress())?;
    let tag = deliver(context, &registry, &parcel, tag).await?;
    let named = format!("{}:{tag}", target.repository);
    let artifact = about(&connection, "artifact_get", (&project, &named), None).await?;
    show(context, &["artifact", "get"], artifact)
}

/// Splits the words into sources and the target.
fn split(words: &[&str], to: Option<&str>) -> Result<(Vec<PathBuf>, Reference)> {
    let paths = |words: &[&str]| words.iter().map(PathBuf::from).collect::<Vec<_>>();
    match (words, to) {
        (_, Some(to)) => Ok((paths(words), Reference::parse(to)?)),
        ([], None) => Err(Failure::usage("nothing to push")),
        ([source], None) => {
            let whole = std::fs::canonicalize(source).unwrap_or_else(|_| PathBuf::from(source));
            let name = whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let repository = repository_for(&name).ok_or_else(|| {
                Failure::usage(format!("{source} is not a valid repository name")).next("add --to REPOSITORY")
            })?;
            Ok((paths(words), Reference { repository, which: Which::Unsaid }))
        }
        ([sources @ .., last], None) if Path::new(last).exists() => Err(Failure::usage(format!(
            "{last}, the last argument, is the repository, and also a file or folder here"
        ))
        .next(format!("add --to REPOSITORY to push it, or use `{} --to {last}`", sources.join(" ")))),
        ([sources @ .., last], None) => Ok((paths(sources), Reference::parse(last)?)),
    }
}

/// Sends blobs, then manifests; returns the tag.
async fn deliver(
    context: &Context,
    registry: &Registry,
    parcel: &Parcel,
    tag: Option<&str>,
) -> Result<String> {
    let pending = Pending::of(context.cache_path(), registry);
    let progress = context.progress();
    for item in &parcel.items {
        let shown = if item.name.is_empty() { &Progress::Silent } else { &progress };
        let bar = shown.begin(&item.name, "sending", item.content.length());
        let sent = send(registry, &pending, &item.digest, &item.content, &bar)
            .await
            .inspect_err(|_| bar.vanish())?;
        bar.end(if sent == Sent::Now { "sent" } else { "already present:" });
    }
    // A file changed after it was sent no longer matches the pushed content.
    for item in &parcel.items {
        item.content.still_the_same()?;
    }
    let Some((last, children)) = parcel.manifests.split_last() else {
        return Err(Failure::usage("nothing to push"));
    };
    for child in children {
        put(registry, &child.digest.to_string(), child).await?;
    }
    let tag = tag.map_or_else(|| last.digest.hex()[..12].to_owned(), str::to_owned);
    put(registry, &tag, last).await?;
    Ok(tag)
}

async fn put(registry: &Registry, reference: &str, manifest: &Document) -> Result<()> {
    let put = || registry.put_manifest(reference, &manifest.media_type, manifest.bytes.clone());
    let answered = match put().await {
        // Pushing the same manifest twice is idempotent.
        Err(trouble) if trouble.passes() => put().await,
        other => other,
    };
    answered.map_err(|trouble| registry.failed(trouble))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_several_words_is_the_repository_unless_it_is_a_file_too() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("Model.bin");
        std::fs::write(&file, "x").unwrap();
        let file = file.to_str().unwrap();
        let (sources, target) = split(&[file, "models/x:v1"], None).unwrap();
        assert_eq!((sources, target.repository.as_str()), (vec![PathBuf::from(file)], "models/x"));
        assert_eq!(split(&[file], None).unwrap().1.repository, "model");
        assert_eq!(split(&[file, file], Some("a:b")).unwrap().0.len(), 2);
        let failure = split(&[file, file], None).unwrap_err();
        assert!(failure.next.unwrap().contains("--to"));
        assert!(split(&[file, "Models"], None).is_err());
    }
}
