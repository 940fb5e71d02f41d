//! Downloads content into a file: verified by its digest, and resumed after an interruption. Partial content is stored
//! beside the files under its digest, so that a file is complete or absent, and another run can resume it.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use muster_trust::Digest;
use sha2::{Digest as _, Sha256};

use super::patience::Patience;
use super::progress::Bar;
use super::registry::Registry;
use super::trouble::{Trouble, deepest};
use crate::failure::{Exit, Failure, Result};

/// Folder for partial content.
const PARTS: &str = ".muster-parts";

/// Content to download.
pub(super) struct ContentRef {
    pub(super) digest: Digest,
    pub(super) size: u64,
}

/// Target folder.
pub(super) struct Target<'a> {
    pub(super) folder: &'a Path,
    pub(super) overwrite: bool,
}

/// Result of a download.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// It existed, with the right digest.
    Before,
    Now,
}

fn unwritable(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| Failure::local(&format!("{} cannot be written", path.display()), error)
}

impl Target<'_> {
    /// Downloads one file to this name inside the folder. The name was validated as safe.
    pub(super) async fn fetch(
        &self,
        registry: &Registry,
        wanted: &ContentRef,
        name: &str,
        bar: &Bar,
    ) -> Result<Got> {
        let path = self.place(name)?;
        if self.is_there(&path, wanted, bar)? {
            return Ok(Got::Before);
        }
        let parts = self.folder.join(PARTS);
        make_folder(&parts)?;
        let part = parts.join(wanted.digest.hex());
        // Content left by an earlier run may be damaged; a fresh download is not repeated.
        let left_before = part.exists();
        if !download(registry, wanted, &part, bar).await? {
            let _ = std::fs::remove_file(&part);
            if !left_before || !download(registry, wanted, &part, bar).await? {
                let _ = std::fs::remove_file(&part);
                let detail =
                    format!("the registry's content for {name} does not have the digest {}", wanted.digest);
                return Err(Failure::new(Exit::Failed, "digest_mismatch", detail)
                    .next("do not use it; `muster artifact verify` verifies it on the server"));
            }
        }
        std::fs::rename(&part, &path).map_err(unwritable(&path))?;
        Ok(Got::Now)
    }

    /// Cleans up after all downloads.
    pub(super) fn done(&self) {
        // The folder stays if another pull still uses it.
        let _ = std::fs::remove_dir(self.folder.join(PARTS));
    }

    /// Returns the path of a name, and creates its parent folders. A link among them would lead out of the folder.
    fn place(&self, name: &str) -> Result<PathBuf> {
        let mut path = self.folder.to_owned();
        let parts: Vec<&str> = name.split('/').collect();
        let (last, folders) = parts.split_last().unwrap_or((&name, &[]));
        for folder in folders {
            path.push(folder);
            make_folder(&path)?;
        }
        path.push(last);
        Ok(path)
    }

    fn is_there(&self, path: &Path, wanted: &ContentRef, bar: &Bar) -> Result<bool> {
        let Ok(about) = std::fs::symlink_metadata(path) else { return Ok(false) };
        if about.is_file() && about.len() == wanted.size {
            let mut file = File::open(path).map_err(unwritable(path))?;
            let mut hash = Sha256::new();
            take_in(&mut file, wanted.size, &mut hash, bar).map_err(unwritable(path))?;
            if Digest::from_bytes(hash.finalize().into()) == wanted.digest {
                return Ok(true);
            }
        }
        if self.overwrite && !about.is_dir() {
            return Ok(false);
        }
        Err(Failure::new(
            Exit::Conflict,
            "file_there",
            format!("{} exists with different content", path.display()),
        )
        .next("pull into another folder, or add --overwrite"))
    }
}

/// Creates a folder unless it exists. A link to a folder does not count.
fn make_folder(path: &Path) -> Result<()> {
    match std::fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => Ok(()),
        Ok(_) => Err(Failure::new(
            Exit::Conflict,
            "file_there",
            format!("{} exists and is not a folder", path.display()),
        )
        .next("pull into another folder")),
        Err(_) => std::fs::create_dir(path).map_err(unwritable(path)),
    }
}

/// Hashes this many bytes of a file from its current position.
fn take_in(file: &mut File, length: u64, hash: &mut Sha256, bar: &Bar) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut left = length;
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(buffer.len()).min(buffer.len());
        let count = file.read(&mut buffer[..most])?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        left -= count as u64;
        bar.at(length - left);
    }
    Ok(())
}

/// Downloads the rest of a partial file. Returns false if it is complete but has the wrong digest.
async fn download(registry: &Registry, wanted: &ContentRef, part: &Path, bar: &Bar) -> Result<bool> {
    let failed = unwritable(part);
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(part).map_err(&failed)?;
    let mut at = file.metadata().map_err(&failed)?.len();
    if at > wanted.size {
        file.set_len(0).map_err(&failed)?;
        at = 0;
    }
    let mut hash = Sha256::new();
    take_in(&mut file, at, &mut hash, bar).map_err(&failed)?;
    let mut patience = Patience::new();
    while at < wanted.size {
        let trouble = match registry.blob(&wanted.digest, at).await {
            Ok(mut answer) => {
                if answer.status().as_u16() != 206 && at > 0 {
                    // The registry sends the whole content.
                    file.set_len(0).and_then(|()| file.seek(SeekFrom::Start(0))).map_err(&failed)?;
                    (at, hash) = (0, Sha256::new());
                    bar.at(0);
                }
                loop {
                    match answer.chunk().await {
                        Ok(Some(piece)) => {
                            at += piece.len() as u64;
                            if at > wanted.size {
                                return Ok(false);
                            }
                            file.write_all(&piece).map_err(&failed)?;
                            hash.update(&piece);
                            bar.at(at);
                            patience.renew();
                        }
                        Ok(None) if at == wanted.size => break None,
                        Ok(None) => break Some(Trouble::Network("the content ended too early".to_owned())),
                        Err(error) => break Some(Trouble::Network(deepest(&error))),
                    }
                }
            }
            Err(trouble) => Some(trouble),
        };
        if let Some(trouble) = trouble {
            patience.bear(registry, trouble, bar).await?;
        }
    }
    Ok(Digest::from_bytes(hash.finalize().into()) == wanted.digest)
}
