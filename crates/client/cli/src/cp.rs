//! `muster cp`: copies files between this machine and a cell.

use std::fs::File;
use std::io::{PipeReader, Read as _, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command, ValueHint};
use muster_sdk::{Said, StreamOutput};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure, Result};
use crate::join::{Named, join, operation, project_argument};
use crate::printable::printable;

pub(crate) fn command() -> Command {
    let side = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .value_name(name.to_uppercase())
            .required(true)
            .value_hint(ValueHint::AnyPath)
            .help(help)
    };
    Command::new("cp")
        .about("Copy files between here and a cell")
        .long_about(
            "Copy files between here and a cell. One side is a path here, or - for standard input or output; \
             the other is CELL:/PATH. With --recursive, copy a whole directory from a cell, without links \
             and devices. To copy a directory to a cell: `tar c DIR | muster exec CELL -- tar x -C \
             /PATH`.\n\n\
             A file appears whole or not at all.\n\n\
             Needs the permission stream.create.",
        )
        .arg(side("src", "Source path"))
        .arg(side("dst", "Target path"))
        .arg(project_argument())
        .arg(Arg::new("recursive").long("recursive").short('r').action(ArgAction::SetTrue).help("Copy a directory of a cell with its contents"))
        .after_help(
            "Examples:\n  muster cp model.bin shell:/data/model.bin\n  muster cp shell:/data/result.csv .\n  muster cp -r \
             shell:/data/run-7 ./run-7\n  muster cp shell:/var/log/x - | less",
        )
}

/// One side of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Side {
    Here(String),
    Cell { cell: String, path: String },
}

impl Side {
    /// A name, a colon and an absolute path refer to a cell; everything else is local. `./a:/b` is local.
    fn parse(text: &str) -> Self {
        match text.split_once(':') {
            Some((cell, path)) if path.starts_with('/') && !cell.is_empty() && !cell.contains(['/', '.']) => {
                Self::Cell { cell: cell.to_owned(), path: path.to_owned() }
            }
            _ => Self::Here(text.to_owned()),
        }
    }
}

/// Runs the command.
pub(crate) async fn cp(context: &Context, matches: &ArgMatches) -> Result<()> {
    let side =
        |name: &str| Side::parse(matches.get_one::<String>(name).map(String::as_str).unwrap_or_default());
    let recursive = matches.get_flag("recursive");
    match (side("src"), side("dst")) {
        (Side::Cell { cell, path }, Side::Here(here)) => {
            let named = Named::of(context, matches, &cell)?;
            if recursive {
                fetch_tree(context, &named, &path, &here).await
            } else {
                fetch(context, &named, &path, &here).await
            }
        }
        (Side::Here(_), Side::Cell { .. }) if recursive => Err(directory()),
        (Side::Here(here), Side::Cell { cell, path }) => {
            let named = Named::of(context, matches, &cell)?;
            send(context, &named, &here, &path).await
        }
        _ => Err(Failure::usage("one side is a local path and the other CELL:/PATH, with an absolute path")),
    }
}

fn directory() -> Failure {
    Failure::usage("a directory cannot be copied to a cell")
        .next("use `tar c DIR | muster exec CELL -- tar x -C /PATH`, or copy its files one by one")
}

fn stream_failed(why: String) -> Failure {
    Failure::new(Exit::Failed, "stream_failed", why)
}

/// Writes all output; returns an error unless it ends properly.
async fn drain(output: &mut StreamOutput, to: &mut dyn Write) -> Result<()> {
    loop {
        match output.next().await.map_err(|error| Failure::call(None, error))? {
            Said::Output(bytes) => to.write_all(&bytes)?,
            Said::Started | Said::Error(_) => {}
            Said::Exited(0) => return Ok(to.flush()?),
            Said::Exited(status) => return Err(stream_failed(format!("it ended with status {status}"))),
            Said::Failed(why) => return Err(stream_failed(why)),
        }
    }
}

/// Returns the last component of a path, if it can be a file name.
fn last_name(path: &str) -> Result<&str> {
    match path.rsplit('/').next() {
        Some(name) if !matches!(name, "" | "." | "..") => Ok(name),
        _ => Err(Failure::usage(format!("{path} names no file; add --recursive to copy a directory"))),
    }
}

async fn fetch(context: &Context, named: &Named, path: &str, here: &str) -> Result<()> {
    let name = last_name(path)?;
    let body = json!({"read": {"path": path}});
    let connection = context.connect()?;
    if here == "-" {
        let (_input, mut output) = join(&connection, named, operation("stream_create")?, body).await?;
        return drain(&mut output, &mut std::io::stdout().lock()).await;
    }
    let target = match Path::new(here) {
        folder if folder.is_dir() || here.ends_with('/') => folder.join(name),
        file => file.to_owned(),
    };
    let failed =
        |error: std::io::Error| Failure::local(&format!("{} cannot be written", target.display()), error);
    let mut part = target.clone().into_os_string();
    part.push(".part");
    let (_input, mut output) = join(&connection, named, operation("stream_create")?, body).await?;
    let mut file = File::create(&part).map_err(failed)?;
    if let Err(failure) = drain(&mut output, &mut file).await {
        let _ = std::fs::remove_file(&part);
        return Err(failure);
    }
    std::fs::rename(&part, &target).map_err(failed)
}

/// Requests a directory by a trailing slash.
async fn fetch_tree(context: &Context, named: &Named, path: &str, here: &str) -> Result<()> {
    let body = json!({"read": {"path": format!("{}/", path.trim_end_matches('/'))}});
    let (_input, mut output) = join(&context.connect()?, named, operation("stream_create")?, body).await?;
    let target = PathBuf::from(here);
    std::fs::create_dir_all(&target)
        .map_err(|error| Failure::local(&format!("{here} cannot be created"), error))?;
    let (reader, mut writer) = std::io::pipe()?;
    let unpacking = tokio::task::spawn_blocking(move || unpack(reader, &target));
    let drained = drain(&mut output, &mut writer).await;
    drop(writer);
    let left_out =
        unpacking.await.map_err(|error| Failure::local("the archive cannot be unpacked", error))?;
    // The cell's error comes first: a truncated archive is only its consequence.
    match (drained, left_out) {
        (Err(failure), _) if !failure.is_silent() => Err(failure),
        (_, Err(failure)) => Err(failure),
        (Err(failure), Ok(_)) => Err(failure),
        (Ok(()), Ok(0)) => Ok(()),
        (Ok(()), Ok(left_out)) => {
            eprintln!("left out: {left_out} links, devices and special files");
            Ok(())
        }
    }
}

/// Unpacks files and directories strictly under `target`: the archive is untrusted input from the cell. Returns the
/// number of skipped entries.
fn unpack(reader: PipeReader, target: &Path) -> Result<usize> {
    let failed = |error: std::io::Error| Failure::local("the archive cannot be unpacked", error);
    let mut archive = tar::Archive::new(reader);
    let mut left_out = 0;
    for entry in archive.entries().map_err(failed)? {
        let mut entry = entry.map_err(failed)?;
        let path = entry.path().map_err(failed)?.into_owned();
        let inside = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !inside {
            let shown = path.display().to_string();
            return Err(stream_failed(format!(
                "the archive contains {}, which is outside the directory",
                printable(&shown)
            )));
        }
        if !matches!(entry.header().entry_type(), tar::EntryType::Regular | tar::EntryType::Directory) {
            left_out += 1;
            continue;
        }
        entry.set_preserve_permissions(false);
        entry.set_preserve_mtime(true);
        entry.set_unpack_xattrs(false);
        // This checks that the folder really is below the target, also through existing links.
        if !entry.unpack_in(target).map_err(failed)? {
            left_out += 1;
        }
    }
    // Data after the end of an archive is only padding, but must be read, or the writer fails.
    std::io::copy(&mut archive.into_inner(), &mut std::io::sink()).map_err(failed)?;
    Ok(left_out)
}

async fn send(context: &Context, named: &Named, here: &str, path: &str) -> Result<()> {
    let failed = |error: std::io::Error| Failure::local(&format!("{here} cannot be read"), error);
    let mut body = json!({"path": path});
    let mut source: Box<dyn std::io::Read + Send> = match here {
        "-" => Box::new(std::io::stdin()),
        _ => {
            let file = File::open(here).map_err(failed)?;
            let about = file.metadata().map_err(failed)?;
            if about.is_dir() {
                return Err(directory());
            }
            body["mode"] = json!(format!("{:04o}", about.permissions().mode() & 0o777));
            Box::new(file)
        }
    };
    if path.ends_with('/') {
        body["path"] = json!(format!("{path}{}", last_name(here)?));
    }
    let body = json!({"write": body});
    let (mut input, mut output) = join(&context.connect()?, named, operation("stream_create")?, body).await?;
    let sending = async {
        let mut buffer = vec![0; 256 << 10];
        loop {
            let count = source.read(&mut buffer).map_err(failed)?;
            let sent = match count {
                0 => input.end().await,
                count => input.send(&buffer[..count]).await,
            };
            // The other end reports the reason.
            if count == 0 || sent.is_err() {
                return Ok::<(), Failure>(());
            }
        }
    };
    let mut nowhere = std::io::sink();
    let (sent, drained) = tokio::join!(sending, drain(&mut output, &mut nowhere));
    sent.and(drained)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cells_side_is_a_name_a_colon_and_a_path_from_the_root() {
        let cell = |cell: &str, path: &str| Side::Cell { cell: cell.to_owned(), path: path.to_owned() };
        assert_eq!(Side::parse("shell:/data"), cell("shell", "/data"));
        assert_eq!(Side::parse("shell:/a:/b"), cell("shell", "/a:/b"));
        for here in ["a", "/a", "./a:/b", "/a:/b", "shell:data", ":/data", "-", "C"] {
            assert_eq!(Side::parse(here), Side::Here(here.to_owned()), "{here}");
        }
    }

    fn archive(make: impl FnOnce(&mut tar::Builder<Vec<u8>>)) -> PipeReader {
        let mut builder = tar::Builder::new(Vec::new());
        make(&mut builder);
        let bytes = builder.into_inner().unwrap();
        let (reader, mut writer) = std::io::pipe().unwrap();
        std::thread::spawn(move || writer.write_all(&bytes));
        reader
    }

    fn member(
        builder: &mut tar::Builder<Vec<u8>>,
        path: &str,
        kind: tar::EntryType,
        link: &str,
        text: &[u8],
    ) {
        let mut header = tar::Header::new_gnu();
        // Written as bytes, because the library refuses to write entries that it should refuse to read.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.as_gnu_mut().unwrap().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o4755);
        header.set_size(text.len() as u64);
        header.set_cksum();
        builder.append(&header, text).unwrap();
    }

    #[test]
    fn a_directory_is_unpacked_without_links_and_with_plain_modes() {
        let folder = tempfile::tempdir().unwrap();
        let reader = archive(|builder| {
            member(builder, "sub/", tar::EntryType::Directory, "", b"");
            member(builder, "sub/a", tar::EntryType::Regular, "", b"text");
            member(builder, "sub/link", tar::EntryType::Symlink, "/nowhere/at-all", b"");
        });
        assert_eq!(unpack(reader, folder.path()).unwrap(), 1);
        let made = folder.path().join("sub/a");
        assert_eq!(std::fs::read(&made).unwrap(), b"text");
        assert_eq!(std::fs::metadata(&made).unwrap().permissions().mode() & 0o7000, 0);
        assert!(!folder.path().join("sub/link").exists());
    }

    #[test]
    fn nothing_is_unpacked_beside_the_target() {
        let outer = tempfile::tempdir().unwrap();
        let target = outer.path().join("target");
        std::fs::create_dir(&target).unwrap();
        std::os::unix::fs::symlink(outer.path(), target.join("out")).unwrap();
        for path in ["../escaped", "/escaped-root", "sub/../../escaped", "out/escaped"] {
            let reader = archive(|builder| member(builder, path, tar::EntryType::Regular, "", b"x"));
            let _ = unpack(reader, &target);
            assert!(!outer.path().join("escaped").exists(), "{path}");
            assert!(!Path::new("/escaped-root").exists(), "{path}");
        }
    }
}
