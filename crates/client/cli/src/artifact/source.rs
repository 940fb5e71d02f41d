//! Sources of a push: an OCI layout as it is, or files, which become an artifact with one layer each.

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

/// Minimum file size for a progress bar.
const WORTH_A_BAR: u64 = 64 << 20;

/// All content of one artifact to push.
#[derive(Default)]
pub(super) struct Parcel {
    pub(super) items: Vec<Item>,
    /// In dependency order; the artifact's own manifest is last.
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

/// Options for the sources.
pub(super) struct Said<'a> {
    pub(super) as_files: bool,
    /// The image of a layout.
    pub(super) manifest: Option<&'a str>,
    pub(super) tag: Option<&'a str>,
}

/// Reads the sources.
pub(super) fn read(sources: &[PathBuf], said: &Said<'_>, progress: &Progress) -> Result<Parcel> {
    if let [source] = sources
        && !said.as_files
        && let Some(layout) = layout(source)?
    {
        return layout.parcel(said.manifest, said.tag);
    }
    if said.manifest.is_some() {
        return Err(Failure::usage("--manifest selects an image of an OCI layout, but these are files"));
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
            Err(Failure::usage(format!("{shown} is an image in the legacy format of `docker save`")).next(format!(
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
    // Without a name, because it is not one of the sources.
    let empty = Item { name: String::new(), digest: Digest::of(&nothing), content: Content::Memory(nothing) };
    if !items.iter().any(|known| known.digest == empty.digest) {
        items.push(empty);
    }
    let bytes = Bytes::from(manifest.to_string());
    let document = Document { media_type: IMAGE_MANIFEST.to_owned(), digest: Digest::of(&bytes), bytes };
    Ok(Parcel { items, manifests: vec![document] })
}

/// Returns every file with its title. For one folder, titles are relative to it; for several sources, they start with the
/// source's name.
fn named(sources: &[PathBuf]) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for source in sources {
        let about = std::fs::metadata(source)
            .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", source.display())))?;
        let name = || {
            // `.` and `..` must be resolved to get a name.
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
        return Err(Failure::usage("no file to push").next("name a file, or a folder that holds one"));
    }
    found.sort();
    let mut titles = BTreeSet::new();
    for (title, path) in &found {
        if !is_safe(title) {
            return Err(Failure::usage(format!(
                "the name of {} is not valid on every file system",
                path.display()
            ))
            .next("rename it: no control characters, no \\, at most 255 bytes per part"));
        }
        if !titles.insert(title) {
            return Err(Failure::usage(format!("two files have the name {title:?}"))
                .next("push their folder instead"));
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
            Failure::usage(format!("the name of {} is not UTF-8", path.display())).next("rename it")
        })?;
        let title = format!("{prefix}{name}");
        let is_link = entry.file_type().map_err(failed)?.is_symlink();
        let about = std::fs::metadata(&path).map_err(failed)?;
        if about.is_file() {
            // A link to a file is read as its content, as in the folders of model hubs.
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

/// Reports whether a title, joined to a folder, is a file in it on every platform.
pub(super) fn is_safe(title: &str) -> bool {
    let plain = |letter: char| !letter.is_control() && letter != '\\';
    plain_name(title)
        && title.len() <= 1024
        && title.chars().all(plain)
        && title.split('/').all(|part| part.len() <= 255)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const SAID: Said<'_> = Said { as_files: false, manifest: None, tag: None };

    fn titles(sources: &[PathBuf]) -> std::result::Result<Vec<String>, String> {
        let found = named(sources).map_err(|failure| failure.detail)?;
        Ok(found.into_iter().map(|(title, _)| title).collect())
    }

    #[test]
    fn a_folder_is_pushed_by_the_names_below_it_and_several_sources_by_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let model = folder.path().join("model");
        std::fs::create_dir_all(model.join("deep/er")).unwrap();
        for name in ["a", ".hidden", "deep/er/b"] {
            std::fs::write(model.join(name), name).unwrap();
        }
        symlink(model.join("a"), model.join("link")).unwrap();
        let beside = folder.path().join("beside");
        std::fs::write(&beside, "x").unwrap();
        assert_eq!(titles(std::slice::from_ref(&model)).unwrap(), [".hidden", "a", "deep/er/b", "link"]);
        let both = titles(&[beside.clone(), model.clone()]).unwrap();
        assert_eq!(both, ["beside", "model/.hidden", "model/a", "model/deep/er/b", "model/link"]);
        assert!(titles(&[beside.clone(), beside]).unwrap_err().contains("two files"));
        symlink(folder.path(), model.join("out")).unwrap();
        assert!(titles(&[model]).unwrap_err().contains("a link to a folder"));
        let nothing = folder.path().join("nothing");
        std::fs::create_dir(&nothing).unwrap();
        assert!(titles(&[nothing]).unwrap_err().contains("no file"));
    }

    #[test]
    fn equal_files_are_sent_once_and_listed_each() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("a"), "same").unwrap();
        std::fs::write(folder.path().join("b"), "same").unwrap();
        let parcel = read(&[folder.path().to_owned()], &SAID, &Progress::silent()).unwrap();
        assert_eq!(parcel.items.len(), 2, "one content and the empty configuration");
        let manifest: serde_json::Value = serde_json::from_slice(&parcel.manifests[0].bytes).unwrap();
        assert_eq!(manifest["layers"].as_array().unwrap().len(), 2);
    }

    fn archive(path: &Path, members: &[(&str, &[u8])]) {
        let mut builder = tar::Builder::new(std::fs::File::create(path).unwrap());
        for (name, bytes) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, name, *bytes).unwrap();
        }
        builder.finish().unwrap();
    }

    #[test]
    fn an_archive_of_an_image_is_read_where_it_lies_and_another_is_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.tar");
        let (config, layer) = (&b"config"[..], &b"layer"[..]);
        let part = |bytes: &[u8]| json!({"digest": Digest::of(bytes), "size": bytes.len()});
        let manifest = json!({"config": part(config), "layers": [part(layer)]}).to_string();
        let index = json!({"manifests": [part(manifest.as_bytes())]}).to_string();
        let blob = |bytes: &[u8]| format!("blobs/sha256/{}", Digest::of(bytes).hex());
        let names = [blob(config), blob(layer), blob(manifest.as_bytes())];
        let image: &[(&str, &[u8])] = &[
            (&names[0], config),
            (&names[1], layer),
            (&names[2], manifest.as_bytes()),
            ("index.json", index.as_bytes()),
            ("oci-layout", b"{}"),
        ];
        archive(&path, image);
        let read = |said: &Said<'_>| read(std::slice::from_ref(&path), said, &Progress::silent());
        let parcel = read(&SAID).unwrap();
        let contents: Vec<Bytes> =
            parcel.items.iter().map(|item| item.content.read(0, 100).unwrap()).collect();
        assert_eq!(contents, [config, layer]);
        assert_eq!(parcel.manifests[0].digest, Digest::of(manifest.as_bytes()));
        assert!(read(&Said { manifest: Some("other"), ..SAID }).is_err());
        let as_files = read(&Said { as_files: true, ..SAID }).unwrap();
        assert_eq!(as_files.items[0].name, "x.tar");
        // A missing layer is found before anything is sent.
        archive(&path, &image[1..]);
        assert!(read(&SAID).err().unwrap().detail.contains("lacks"));
        archive(&path, &[("manifest.json", b"[]")]);
        assert!(read(&SAID).err().unwrap().next.unwrap().contains("skopeo copy docker-archive:"));
        archive(&path, &[("data/a", b"x"), ("manifest.json", b"[]")]);
        assert_eq!(read(&SAID).unwrap().items[0].name, "x.tar");
    }
}
