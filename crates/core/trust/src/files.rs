//! Signatures over the files of a folder, as the PyPI package `model_signing` creates and verifies them.
//!
//! The statement lists every file with its SHA-256, and its subject is one digest over these in list order. An artifact of
//! files is a manifest with titled layers. The two lists must be equal: accepting a subset would let a copy of an artifact
//! omit the file that makes it harmless.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::statement::{self, Head, Statement, Subject};
use crate::{Difference, Digest, oci, shown};

/// Why a list of files cannot be signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilesError {
    /// There is nothing to sign.
    #[error("no file to sign")]
    None,
    /// A name is not a plain relative path.
    #[error("{0:?} is not a plain path of a file inside a folder: no empty, . or .. part, no / in front")]
    Name(String),
    /// A name occurs twice.
    #[error("the file {0:?} is listed twice")]
    Twice(String),
    /// The list exceeds the verifiers' limit.
    #[error(
        "the list of files exceeds {} bytes, the limit of readers: pack small files together",
        crate::MOST_PAYLOAD
    )]
    TooLong,
}

#[derive(Serialize, Deserialize)]
struct Predicate {
    serialization: Serialization,
    resources: Vec<Resource>,
}

#[derive(Serialize, Deserialize)]
struct Serialization {
    method: String,
    hash_type: String,
    #[serde(default)]
    allow_symlinks: bool,
}

#[derive(Serialize, Deserialize)]
struct Resource {
    name: String,
    algorithm: String,
    digest: String,
}

/// Reports whether a path is unambiguous and stays inside its folder. Python's paths fold `a//b` and `./b`.
pub fn plain_name(name: &str) -> bool {
    !name.contains('\0') && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Builds the statement over these files. The name is the folder's, for display; verifiers do not compare it.
pub(crate) fn statement(name: &str, files: &[(String, Digest)]) -> Result<Vec<u8>, FilesError> {
    if files.is_empty() {
        return Err(FilesError::None);
    }
    if let Some((name, _)) = files.iter().find(|(name, _)| !plain_name(name)) {
        return Err(FilesError::Name(shown(name)));
    }
    let mut files: Vec<_> = files.iter().collect();
    // In the order of `model_signing`: by path components.
    files.sort_by(|(one, _), (other, _)| one.split('/').cmp(other.split('/')));
    if let Some(pair) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(FilesError::Twice(shown(&pair[0].0)));
    }
    let root = Digest::of_parts(files.iter().map(|(_, digest)| &digest.bytes()[..]));
    let resources = files.into_iter().map(|(name, digest)| Resource {
        name: name.clone(),
        algorithm: "sha256".into(),
        digest: digest.hex(),
    });
    let statement = oci::json(&Statement {
        statement: statement::STATEMENT,
        subject: [Subject::new(Some(name), &root)],
        predicate_type: statement::FILES,
        predicate: Predicate {
            serialization: Serialization {
                method: "files".into(),
                hash_type: "sha256".into(),
                allow_symlinks: false,
            },
            resources: resources.collect(),
        },
    });
    if statement.len() > crate::MOST_PAYLOAD { Err(FilesError::TooLong) } else { Ok(statement) }
}

/// Returns the files that a statement lists. The error explains why it lists none.
pub(crate) fn listed(head: &Head, payload: &[u8]) -> Result<BTreeMap<String, Digest>, String> {
    #[derive(Deserialize)]
    struct Read {
        predicate: Predicate,
    }
    let read: Read = serde_json::from_slice(payload)
        .map_err(|why| format!("the signed list of files is invalid ({why})"))?;
    let Predicate { serialization, resources } = read.predicate;
    if serialization.method != "files" {
        let method = shown(&serialization.method);
        return Err(format!("files were signed by the method {method:?}: sign whole files, without shards"));
    }
    let mut files = BTreeMap::new();
    let mut digests = Vec::with_capacity(resources.len());
    for Resource { name, algorithm, digest } in resources {
        if algorithm != "sha256" {
            let algorithm = shown(&algorithm);
            return Err(format!(
                "files were signed by their {algorithm:?}: sign with sha256, which names artifacts"
            ));
        }
        let digest = Digest::from_hex(&digest).map_err(|why| why.to_string())?;
        if !plain_name(&name) {
            return Err(FilesError::Name(shown(&name)).to_string());
        }
        digests.push(digest);
        if files.insert(name.clone(), digest).is_some() {
            return Err(FilesError::Twice(shown(&name)).to_string());
        }
    }
    let [subject] = head.subject.as_slice() else {
        return Err(format!("the signed list of files has {} subjects, expected one", head.subject.len()));
    };
    let root = Digest::of_parts(digests.iter().map(|digest| &digest.bytes()[..]));
    if subject.digest() != Some(root) {
        return Err(
            "the signed list of files is inconsistent: its subject is not the digest over its files".into()
        );
    }
    Ok(files)
}

/// Returns how the files of an artifact differ from the signed ones. One difference is reported, deterministically.
pub(crate) fn compare(signed: &BTreeMap<String, Digest>, files: &[(String, Digest)]) -> Option<Difference> {
    let mut there = BTreeMap::new();
    for (name, digest) in files {
        if there.insert(name.as_str(), digest).is_some() {
            return Some(Difference::FileTwice { name: shown(name) });
        }
    }
    let changed =
        signed.iter().find(|(name, digest)| there.get(name.as_str()).is_some_and(|found| found != digest));
    if let Some((name, _)) = changed {
        return Some(Difference::FileChanged { name: shown(name) });
    }
    let missing = signed.iter().find(|(name, _)| !there.contains_key(name.as_str()));
    let mut extra = there.iter().filter(|(name, _)| !signed.contains_key(**name));
    match missing {
        Some((from, digest)) => Some(match extra.find(|(_, found)| **found == digest) {
            Some((to, _)) => Difference::FileRenamed { from: shown(from), to: shown(to) },
            None => Difference::FileMissing { name: shown(from) },
        }),
        None => extra.next().map(|(name, _)| Difference::FileExtra { name: shown(name) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(names: &[&str]) -> Vec<(String, Digest)> {
        names.iter().map(|name| ((*name).to_owned(), Digest::of(name.as_bytes()))).collect()
    }

    fn text(names: &[&str]) -> String {
        String::from_utf8(statement("model", &files(names)).unwrap()).unwrap()
    }

    fn read(text: &str) -> Result<BTreeMap<String, Digest>, String> {
        listed(&Head::read(text.as_bytes()).unwrap(), text.as_bytes())
    }

    #[test]
    fn a_list_comes_back_whatever_its_order_was() {
        let names = ["b", "a/b", "a.txt", "a", "ü/ö 1"];
        let mut backwards = names;
        backwards.reverse();
        assert_eq!(text(&names), text(&backwards));
        let signed = read(&text(&names)).unwrap();
        assert_eq!(compare(&signed, &files(&names)), None);
        assert_eq!(compare(&signed, &files(&backwards)), None);
    }

    #[test]
    fn every_difference_is_named() {
        let signed = read(&text(&["a", "b", "c"])).unwrap();
        let named = |name: &str| shown(name);
        let mut changed = files(&["a", "b", "c"]);
        changed[1].1 = Digest::of(b"other");
        assert_eq!(compare(&signed, &changed), Some(Difference::FileChanged { name: named("b") }));
        let mut renamed = files(&["a", "b", "c"]);
        renamed[2].0 = "d".into();
        assert_eq!(
            compare(&signed, &renamed),
            Some(Difference::FileRenamed { from: named("c"), to: named("d") })
        );
        let mut swapped = files(&["a", "b", "c"]);
        (swapped[0].0, swapped[1].0) = ("b".into(), "a".into());
        assert_eq!(compare(&signed, &swapped), Some(Difference::FileChanged { name: named("a") }));
        for (names, difference) in [
            (&["a", "b"][..], Difference::FileMissing { name: named("c") }),
            (&[], Difference::FileMissing { name: named("a") }),
            (&["a", "b", "c", "d"], Difference::FileExtra { name: named("d") }),
            (&["a", "b", "d"], Difference::FileMissing { name: named("c") }),
            (&["a", "b", "c", "c"], Difference::FileTwice { name: named("c") }),
            (&["a", "b", "./c"], Difference::FileMissing { name: named("c") }),
        ] {
            assert_eq!(compare(&signed, &files(names)), Some(difference));
        }
    }

    #[test]
    fn statement_over_invalid_files_is_refused() {
        assert_eq!(statement("m", &[]), Err(FilesError::None));
        assert_eq!(statement("m", &files(&["a", "b", "a"])), Err(FilesError::Twice("a".into())));
        for name in ["", "/a", "a/", "a//b", "./a", "a/./b", "..", "a/../b", "a\0"] {
            assert!(matches!(statement("m", &files(&[name])), Err(FilesError::Name(_))), "{name}");
        }
        let many: Vec<_> = (0..10_000).map(|n| (format!("file-{n}"), Digest::of(b""))).collect();
        assert_eq!(statement("m", &many), Err(FilesError::TooLong));
    }

    #[test]
    fn a_list_that_contradicts_itself_is_refused() {
        let good = text(&["a", "b"]);
        let a = Digest::of(b"a").hex();
        let b = Digest::of(b"b").hex();
        for (text, says) in [
            (good.replace(&a, &b), "is inconsistent"),
            (good.replace("\"name\":\"b\"", "\"name\":\"a\""), "listed twice"),
            (good.replace("\"name\":\"b\"", "\"name\":\"../b\""), "not a plain path"),
            (good.replace("\"algorithm\":\"sha256\"", "\"algorithm\":\"blake3\""), "sign with sha256"),
            (good.replace("\"files\"", "\"shards\""), "without shards"),
            (good.replace(&a, &a[1..]), "invalid digest"),
            (good.replace("resources", "things"), "files is invalid"),
            (good.replace("\"subject\":[", "\"subject\":[{},"), "2 subjects"),
        ] {
            let why = read(&text).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }
}
