//! Paths, names and tags: ordinary, strange and hostile ones.

use proptest::prelude::*;

use super::*;

const HEX: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ID: &str = "01900000-0000-7000-8000-000000000001";

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

#[test]
fn paths_are_read_from_the_right() {
    let digest = Digest::of(b"");
    let tag = |text: &str| Reference::Tag(text.parse().unwrap());
    let id = Uuid::try_parse(ID).unwrap();
    for (path, expected) in [
        (String::new(), Route::Base),
        ("_catalog".to_owned(), Route::Catalog),
        ("a/tags/list".to_owned(), Route::Tags { name: name("a") }),
        ("a/tags/tags/list".to_owned(), Route::Tags { name: name("a/tags") }),
        ("a/b/manifests/v1".to_owned(), Route::Manifest { name: name("a/b"), reference: tag("v1") }),
        ("a/manifests/list".to_owned(), Route::Manifest { name: name("a"), reference: tag("list") }),
        (
            format!("a/manifests/sha256:{HEX}"),
            Route::Manifest { name: name("a"), reference: Reference::Digest(digest) },
        ),
        (format!("a/blobs/sha256:{HEX}"), Route::Blob { name: name("a"), digest }),
        (
            format!("a/blobs/uploads/blobs/sha256:{HEX}"),
            Route::Blob { name: name("a/blobs/uploads"), digest },
        ),
        ("a/blobs/uploads".to_owned(), Route::UploadStart { name: name("a") }),
        ("a/blobs/uploads/".to_owned(), Route::UploadStart { name: name("a") }),
        ("a/blobs/uploads/blobs/uploads/".to_owned(), Route::UploadStart { name: name("a/blobs/uploads") }),
        (format!("a/b/blobs/uploads/{ID}"), Route::Upload { name: name("a/b"), id }),
        (format!("a/referrers/sha256:{HEX}"), Route::Referrers { name: name("a"), digest }),
    ] {
        assert_eq!(parse(&path), Ok(expected), "{path}");
    }
}

#[test]
fn unroutable_path_is_refused_with_its_code() {
    let code = |path: &str| {
        let refusal = parse(path).unwrap_err().refusal();
        (refusal.code, refusal.status)
    };
    let long = format!("{}/tags/list", "a/".repeat(128) + "a");
    for (path, expected) in [
        ("a", (Code::Unsupported, 404)),
        ("/", (Code::Unsupported, 404)),
        ("tags/list", (Code::Unsupported, 404)),
        ("a/tags/other", (Code::Unsupported, 404)),
        ("a/uploads/x", (Code::Unsupported, 404)),
        ("A/tags/list", (Code::NameInvalid, 400)),
        ("/tags/list", (Code::NameInvalid, 400)),
        ("a//b/tags/list", (Code::NameInvalid, 400)),
        ("../tags/list", (Code::NameInvalid, 400)),
        ("a%2Fb/tags/list", (Code::NameInvalid, 400)),
        (&long, (Code::NameInvalid, 400)),
        ("a/manifests/", (Code::ManifestInvalid, 400)),
        ("a/manifests/.x", (Code::ManifestInvalid, 400)),
        ("a/manifests/sha256:abc", (Code::DigestInvalid, 400)),
        ("a/manifests/sha512:abc", (Code::Unsupported, 400)),
        ("a/blobs/sha512:abc", (Code::Unsupported, 400)),
        ("a/blobs/abc", (Code::DigestInvalid, 400)),
        ("a/blobs/:abc", (Code::DigestInvalid, 400)),
        ("a/blobs/sha256:", (Code::DigestInvalid, 400)),
        ("a/referrers/latest", (Code::DigestInvalid, 400)),
        ("a/blobs/uploads/x", (Code::BlobUploadUnknown, 404)),
    ] {
        assert_eq!(code(path), expected, "{path}");
    }
}

#[test]
fn names_follow_the_grammar() {
    for good in ["a", "0", "a/b/c", "a.b", "a_b", "a__b", "a-b", "a---b", "a1.b2_c3", &"a".repeat(255)] {
        assert!(good.parse::<Name>().is_ok(), "{good}");
    }
    for bad in [
        "",
        "/",
        "a/",
        "/a",
        "a//b",
        "a..b",
        "a___b",
        "a._b",
        "a.-b",
        "-a",
        "a-",
        ".a",
        "_a",
        "a_",
        "A",
        "a b",
        "é",
        "a:b",
        "a@b",
        "a\0",
        "a\n",
        &"a".repeat(256),
    ] {
        assert!(bad.parse::<Name>().is_err(), "{bad:?}");
    }
}

#[test]
fn tags_follow_the_grammar() {
    for good in ["a", "_", "V1.0-rc_2", "0", &"x".repeat(128)] {
        assert!(good.parse::<Tag>().is_ok(), "{good}");
    }
    for bad in ["", ".a", "-a", "a b", "a/b", "a:b", "a+b", "é", "a\n", &"x".repeat(129)] {
        assert!(bad.parse::<Tag>().is_err(), "{bad:?}");
    }
}

/// An independent implementation for comparison.
fn by_the_regular_expression(part: &str) -> bool {
    let mut rest = part;
    loop {
        let plain = rest.trim_start_matches(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
        if plain.len() == rest.len() {
            return false;
        }
        if plain.is_empty() {
            return true;
        }
        let hyphens = plain.trim_start_matches('-');
        rest = if hyphens.len() < plain.len() {
            hyphens
        } else {
            let after = plain.strip_prefix("__").or_else(|| plain.strip_prefix(['.', '_']));
            let Some(after) = after else { return false };
            after
        };
    }
}

proptest! {
    #[test]
    fn a_part_is_what_the_grammar_says(part in "[a0._-]{0,8}") {
        prop_assert_eq!(is_part(&part), by_the_regular_expression(&part));
    }

    #[test]
    fn no_path_is_too_strange(path in "([a-z_:/]|blobs|uploads|manifests|tags/list|sha256:|é|%2F|\\.\\.){0,12}|.{0,300}") {
        match parse(&path) {
            Ok(Route::Tags { name }) => prop_assert!(!name.as_str().contains("..")),
            Ok(_) => {}
            Err(error) => prop_assert!(error.refusal().message.len() < 1000),
        }
    }
}
