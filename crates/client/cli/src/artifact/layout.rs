//! OCI layouts: images in a folder or an archive, read for a push. An archive is not unpacked: its members are read as
//! parts of one file, so no extra disk space is needed.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use muster_trust::Digest;
use serde_json::Value;

use super::content::{Content, Part};
use super::source::{Document, Item, Parcel};
use super::{DOCKER_LIST, IMAGE_INDEX, IMAGE_MANIFEST, LONGEST_MANIFEST, REF_NAME};
use crate::failure::{Failure, Result};
use crate::printable::printable;

/// Maximum nesting depth of indexes.
const DEPTH: usize = 4;

/// Location of a layout.
pub(super) enum Layout {
    Folder(PathBuf),
    Archive { whole: Part, members: BTreeMap<String, (u64, u64)> },
}

/// Kind of a `.tar` file.
pub(super) enum Archive {
    Layout(Layout),
    /// Legacy format of `docker save`, without a layout.
    Docker,
    /// Any other file.
    Other,
}

impl Layout {
    /// Returns the layout in a folder, if it is one.
    pub(super) fn in_folder(folder: &Path) -> Option<Self> {
        let has = |name: &str| folder.join(name).is_file();
        (has("oci-layout") && has("index.json")).then(|| Self::Folder(folder.to_owned()))
    }

    /// Detects whether a file is an image archive. Only one with a plausible first member is read further, so that a
    /// tarball of a million files is not searched in vain.
    pub(super) fn in_archive(path: &Path) -> Result<Archive> {
        let failed =
            |error: std::io::Error| Failure::local(&format!("{} cannot be read", path.display()), error);
        let whole = Part::whole(path)?;
        let mut archive = tar::Archive::new(File::open(path).map_err(failed)?);
        let Ok(entries) = archive.entries_with_seek() else { return Ok(Archive::Other) };
        let mut members = BTreeMap::new();
        for entry in entries {
            // An unreadable archive is treated as an ordinary file.
            let Ok(entry) = entry else { return Ok(Archive::Other) };
            let Ok(name) = entry.path().map(|path| path.to_string_lossy().into_owned()) else {
                return Ok(Archive::Other);
            };
            let name = name.trim_start_matches("./").to_owned();
            if members.is_empty() && !begins_an_image(&name) {
                return Ok(Archive::Other);
            }
            members.insert(name, (entry.raw_file_position(), entry.size()));
        }
        let has = |name: &str| members.contains_key(name);
        Ok(if has("oci-layout") && has("index.json") {
            Archive::Layout(Self::Archive { whole, members })
        } else if has("manifest.json") {
            Archive::Docker
        } else {
            Archive::Other
        })
    }

    fn content(&self, name: &str) -> Result<Option<Content>> {
        match self {
            Self::Folder(folder) => {
                let path = folder.join(name);
                if path.is_file() {
                    Part::whole(&path).map(|part| Some(Content::Part(part)))
                } else {
                    Ok(None)
                }
            }
            Self::Archive { whole, members } => {
                Ok(members.get(name).map(|(offset, length)| Content::Part(whole.slice(*offset, *length))))
            }
        }
    }

    fn blob(&self, digest: &Digest) -> Result<Option<Content>> {
        self.content(&format!("blobs/sha256/{}", digest.hex()))
    }

    fn document(&self, name: &str) -> Result<Value> {
        let content = self.content(name)?.ok_or_else(|| broken(&format!("it has no {name}")))?;
        parse(&short(&content)?)
    }

    /// Returns all content of one of its images. `wanted` is its name in the layout, or its digest.
    pub(super) fn parcel(&self, wanted: Option<&str>, tag: Option<&str>) -> Result<Parcel> {
        let index = self.document("index.json")?;
        let listed = index["manifests"].as_array().map_or(&[][..], Vec::as_slice);
        let mut parcel = Parcel::default();
        self.add(chosen(listed, wanted, tag)?, &mut parcel, DEPTH)?;
        Ok(parcel)
    }

    fn add(&self, descriptor: &Value, parcel: &mut Parcel, depth: usize) -> Result<()> {
        let digest = digest_of(descriptor)?;
        if depth == 0 {
            return Err(broken("its indexes are nested too deeply"));
        }
        if parcel.manifests.iter().any(|known| known.digest == digest) {
            return Ok(());
        }
        let content = self.blob(&digest)?.ok_or_else(|| missing(&digest))?;
        let bytes = short(&content)?;
        if Digest::of(&bytes) != digest {
            return Err(broken(&format!("the content of manifest {digest} does not match its digest")));
        }
        let manifest = parse(&bytes)?;
        for child in manifest["manifests"].as_array().into_iter().flatten() {
            self.add(child, parcel, depth - 1)?;
        }
        let layers = manifest["layers"].as_array().into_iter().flatten();
        if let Some(config) = manifest.get("config") {
            self.add_blob("config", config, parcel)?;
        }
        for layer in layers {
            self.add_blob("layer", layer, parcel)?;
        }
        let said = [&manifest["mediaType"], &descriptor["mediaType"]].into_iter().find_map(Value::as_str);
        let otherwise = if manifest["manifests"].is_array() { IMAGE_INDEX } else { IMAGE_MANIFEST };
        parcel.manifests.push(Document { media_type: said.unwrap_or(otherwise).to_owned(), digest, bytes });
        Ok(())
    }

    fn add_blob(&self, what: &str, descriptor: &Value, parcel: &mut Parcel) -> Result<()> {
        let digest = digest_of(descriptor)?;
        if parcel.items.iter().any(|known| known.digest == digest) {
            return Ok(());
        }
        let Some(content) = self.blob(&digest)? else {
            // Layers with external URLs need not be included.
            let elsewhere = descriptor["urls"].as_array().is_some_and(|urls| !urls.is_empty());
            return if elsewhere { Ok(()) } else { Err(missing(&digest)) };
        };
        if descriptor["size"].as_u64() != Some(content.length()) {
            return Err(broken(&format!("the size of {digest} differs from its manifest")));
        }
        let name = format!("{what} {}", &digest.hex()[..12]);
        parcel.items.push(Item { name, digest, content });
        Ok(())
    }
}

/// Reports whether the first member of an archive looks like an image's.
fn begins_an_image(name: &str) -> bool {
    let first = name.split('/').next().unwrap_or_default();
    let stem = first.split('.').next().unwrap_or_default();
    matches!(first, "blobs" | "oci-layout" | "index.json" | "manifest.json" | "repositories")
        || (stem.len() == 64 && stem.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

pub(super) fn is_index(manifest: &Value, media_type: &str) -> bool {
    manifest["manifests"].is_array() || media_type == IMAGE_INDEX || media_type == DOCKER_LIST
}

fn broken(why: &str) -> Failure {
    Failure::usage(format!("the OCI layout is invalid: {why}"))
        .next("write it again, such as with `skopeo copy docker://… oci:FOLDER:TAG`")
}

fn missing(digest: &Digest) -> Failure {
    broken(&format!("it lacks {digest}"))
}

fn short(content: &Content) -> Result<Bytes> {
    if content.length() > LONGEST_MANIFEST {
        return Err(broken("one of its manifests is too long"));
    }
    content.read(0, LONGEST_MANIFEST as usize)
}

fn parse(bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes)
        .map_err(|error| broken(&format!("one of its manifests is not JSON: {error}")))
}

pub(super) fn digest_of(descriptor: &Value) -> Result<Digest> {
    let text = descriptor["digest"].as_str().unwrap_or_default();
    text.parse().map_err(|error| broken(&format!("{error}")))
}

/// Returns the selected image: the only one, or one by name or digest.
fn chosen<'l>(listed: &'l [Value], wanted: Option<&str>, tag: Option<&str>) -> Result<&'l Value> {
    let name = |descriptor: &'l Value| descriptor["annotations"][REF_NAME].as_str();
    let named = |word: &str| listed.iter().find(|found| name(found) == Some(word) || found["digest"] == word);
    match (listed, wanted) {
        ([], _) => Err(broken("it lists nothing")),
        (_, Some(word)) => named(word).ok_or_else(|| several(listed, &format!("it lists no {word:?}"))),
        ([only], None) => Ok(only),
        (_, None) => tag.and_then(named).ok_or_else(|| several(listed, "it lists several images")),
    }
}

fn several(listed: &[Value], why: &str) -> Failure {
    let names = listed
        .iter()
        .filter_map(|found| found["annotations"][REF_NAME].as_str().or(found["digest"].as_str()));
    let names = names.map(|name| printable(name).into_owned()).collect::<Vec<_>>().join(", ");
    Failure::usage(format!("the OCI layout: {why}")).next(format!("choose one with --manifest: {names}"))
}
