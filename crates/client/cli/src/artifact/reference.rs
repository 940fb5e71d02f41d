//! References to registry content: `REPOSITORY`, `REPOSITORY:TAG`, `REPOSITORY@sha256:…`.

use muster_trust::Digest;

use crate::failure::{Failure, Result};

/// Selects content of a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Which {
    Unsaid,
    Tag(String),
    Digest(Digest),
}

/// A repository and a selection of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) repository: String,
    pub(super) which: Which,
}

impl Reference {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let (repository, which) = match text.split_once('@') {
            Some((repository, digest)) => {
                let digest = digest.parse().map_err(|error| Failure::usage(format!("{error}")))?;
                (repository, Which::Digest(digest))
            }
            None => match text.rsplit_once(':') {
                Some((_, tag)) if !is_tag(tag) => {
                    return Err(Failure::usage(format!("invalid tag {tag:?}"))
                        .next("use at most 128 letters, digits, . _ and -"));
                }
                Some((repository, tag)) => (repository, Which::Tag(tag.to_owned())),
                None => (text, Which::Unsaid),
            },
        };
        if !is_repository(repository) {
            return Err(Failure::usage(format!("invalid repository name {repository:?}")).next(
                "use lower-case letters and digits, with . _ - between them and / between parts, without the project in front: train/base",
            ));
        }
        Ok(Self { repository: repository.to_owned(), which })
    }
}

/// The registry validates names; this only rejects those that would change the request's path.
fn is_repository(name: &str) -> bool {
    let part = |part: &str| {
        let edge =
            |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        edge(part.bytes().next()) && edge(part.bytes().last()) && part.bytes().all(inner)
    };
    name.len() <= 200 && name.split('/').all(part)
}

fn is_tag(tag: &str) -> bool {
    let first = tag.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    first
        && tag.len() <= 128
        && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// Derives a repository name from a file name: `My Model.safetensors` becomes `my-model`.
pub(super) fn repository_for(name: &str) -> Option<String> {
    let stem = name.split('.').find(|part| !part.is_empty())?;
    let plain = stem.chars().map(|letter| match letter.to_ascii_lowercase() {
        letter if letter.is_ascii_alphanumeric() => letter,
        _ => '-',
    });
    let plain: String = plain.collect();
    let plain = plain.split('-').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("-");
    Some(plain).filter(|name| is_repository(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_a_repository_and_perhaps_a_tag_or_a_digest() {
        let digest = Digest::of(b"x");
        let parsed = |text: &str| Reference::parse(text).map(|found| (found.repository, found.which)).ok();
        let named = |which: Which| Some(("train/base".to_owned(), which));
        assert_eq!(parsed("train/base"), named(Which::Unsaid));
        assert_eq!(parsed("train/base:v1.2"), named(Which::Tag("v1.2".to_owned())));
        assert_eq!(parsed(&format!("train/base@{digest}")), named(Which::Digest(digest)));
        for wrong in [
            "",
            ":v1",
            "a:",
            "a:b/c",
            "A",
            "a/../b",
            "a//b",
            "/a",
            "a/",
            "a@sha256:12",
            "a b",
            "a%2f:x",
            "-a",
        ] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn repository_name_defaults_to_the_normalized_file_name() {
        assert_eq!(repository_for("My Model.v2.safetensors").as_deref(), Some("my-model"));
        assert_eq!(repository_for("weights").as_deref(), Some("weights"));
        assert_eq!(repository_for(".config").as_deref(), Some("config"));
        assert_eq!(repository_for("--"), None);
        assert_eq!(repository_for(""), None);
    }
}
