//! What is pushed: an OCI layout as it is, or files, which become an artifact of one layer each.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use muster_trust::{Digest, plain_name};
use serde_json::json;

use super::content::{Content, Part};
use super::layout::{Archive, Layout};
use super::progress::Progress;
use super::{EMPTY, FILES, IMAGE_MANIFEST, TITLE};
use crate::failure::{Failure, Result};

/// A file shorter than this is hashed before anybody could read a bar.
const WORTH_A_BAR: u64 = 64 << 20;

/// Everything that is pushed for one artifact.
#[derive(Default)]
pub(super) struct Parcel {
    pub(super) items: Vec<Item>,
    /// What belongs to others comes before them; the artifact's own is the last.
    pub(super) manifests: Vec<Document>,
}

/// A blob.
pub(super) struct Item {
    pub(super) name: String,
    pub(super) digest: Digest,
    pub(super) content: Content,
}

/// A manifest.
pub(super) struct Document {
    pub(super) media_type: String,
    pub(super) digest: Digest,
    pub(super) bytes: Bytes,
}

/// What was said about the sources.
pub(super) struct Said<'a> {
    pub(super) as_files: bool,
    /// Which image of a layout.
    pub(super) manifest: Option<&'a str>,
    pub(super) tag: Option<&'a str>,
}

/// Reads what is there.
pub(super) fn read(sources: &[PathBuf], said: &Said<'_>, progress: &Progress) -> Result<Parcel> {
    if let [source] = sources
        && !said.as_files
        && let Some(layout) = layout(source)?
    {
        return layout.parcel(said.manifest, said.tag);
    }
    if said.manifest.is_some() {
        return Err(Failure::usage("--manifest says which image of an OCI layout, and these are files"));
    }
    files(sources, progress)
}

fn layout(source: &Path) -> Result<Option<Layout>> {
    if source.is_dir() {
        return Ok(Layout::in_folder(source));
    }
    if !source.is_file() {
        return Ok(None);
    }
    match Layout::in_archive(source)? {
        Archive::Layout(layout) => Ok(Some(layout)),
        Archive::Other => Ok(None),
        Archive::Docker => {
            let shown = source.display();
            Err(Failure::usage(format!("{shown} is an image in the older form of `docker save`")).next(format!(
                "skopeo copy docker-archive:{shown} oci:FOLDER:TAG, then push FOLDER; --as-files pushes the archive itself as a file"
            )))
        }
    }
}

/// An artifact of files.
fn files(sources: &[PathBuf], progress: &Progress) -> Result<Parcel> {
    let found = named(sources)?;
    let (mut items, mut layers) = (Vec::<Item>::new(), Vec::new());
    for (title, path) in found {
        let content = Content::Part(Part::whole(&path)?);
        let shown = if content.length() < WORTH_A_BAR { &Progress::Silent } else { progress };
        let bar = shown.begin(&title, "reading", content.length());
        let digest = content.digest(&bar)?;
        bar.vanish();
        layers.push(json!({
            "mediaType": "application/octet-stream",
            "digest": digest,
            "size": content.length(),
            "annotations": {TITLE: title},
        }));
        if !items.iter().any(|known| known.digest == digest) {
            items.push(Item { name: title, digest, content });
        }
    }
    let nothing = Bytes::from_static(b"{}");
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "artifactType": FILES,
        "config": {"mediaType": EMPTY, "digest": Digest::of(&nothing), "size": nothing.len()},
        "layers": layers,
    });
    // Without a name, because nobody asked for it.
    let empty = Item { name: String::new(), digest: Digest::of(&nothing), content: Content::Memory(nothing) };
    if !items.iter().any(|known| known.digest == empty.digest) {
        items.push(empty);
    }
    let bytes = Bytes::from(manifest.to_string());
    let document = Document { media_type: IMAGE_MANIFEST.to_owned(), digest: Digest::of(&bytes), bytes };
    Ok(Parcel { items, manifests: vec![document] })
}

/// Every file with its title. Of one folder the titles begin below it; of several sources, with their names.
fn named(sources: &[PathBuf]) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for source in sources {
        let about = std::fs::metadata(source)
            .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", source.display())))?;
        let name = || {
            // `.` and `..` have a name too, which only the file system knows.
            let whole = std::fs::canonicalize(source).unwrap_or_else(|_| source.clone());
            whole.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
        };
        if about.is_dir() {
            let prefix = if sources.len() == 1 { String::new() } else { format!("{}/", name()) };
            walk(source, &prefix, &mut found)?;
        } else if about.is_file() {
            found.push((name(), source.clone()));
        } else {
            return Err(Failure::usage(format!("{} is neither a file nor a folder", source.display())));
        }
    }
    if found.is_empty() {
        return Err(
            Failure::usage("there is no file to push").next("name a file, or a folder that holds one")
        );
    }
    found.sort();
    let mut titles = BTreeSet::new();
    for (title, path) in &found {
        if !is_safe(title) {
            return Err(Failure::usage(format!(
                "{} has a name that not every file system takes",
                path.display()
            ))
            .next("rename it: no control characters, no \\, 255 bytes a part at the most"));
        }
        if !titles.insert(title) {
            return Err(Failure::usage(format!("two files would be called {title:?}"))
                .next("push the folder that they are in"));
        }
    }
    Ok(found)
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<(String, PathBuf)>) -> Result<()> {
    let failed =
        |error: std::io::Error| Failure::local(&format!("{} cannot be read", folder.display()), error);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = entry.path();
        let name = entry.file_name().into_string().map_err(|_| {
            Failure::usage(format!("the name of {} is no UTF-8", path.display())).next("rename it")
        })?;
        let title = format!("{prefix}{name}");
        let is_link = entry.file_type().map_err(failed)?.is_symlink();
        let about = std::fs::metadata(&path).map_err(failed)?;
        if about.is_file() {
            // A link to a file is its content, as in the folders of model hubs.
            found.push((title, path));
        } else if about.is_dir() && !is_link {
            walk(&path, &format!("{title}/"), found)?;
        } else {
            let what = if about.is_dir() { "a link to a folder" } else { "neither a file nor a folder" };
            return Err(Failure::usage(format!("{} is {what}", path.display()))
                .next("leave it out, or pack everything with `tar` and push the archive"));
        }
    }
    Ok(())
}

/// Whether a title, joined to a folder, is a file in it on every machine.
pub(super) fn is_safe(title: &str) -> bool {
    let plain = |letter: char| !letter.is_control() && letter != '\\';
    plain_name(title)
        && title.len() <= 1024
        && title.chars().all(plain)
        && title.split('/').all(|part| part.len() <= 255)
}
