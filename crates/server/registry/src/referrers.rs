//! The referrers response: an index of the manifests that have a manifest as their subject.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Digest;
use crate::manifest::{Manifest, MediaType};

/// A manifest that refers to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Referrer {
    /// Its media type.
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its length in bytes.
    pub size: u64,
    /// Its artifact type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The manifest's own annotations.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

impl Referrer {
    /// Returns the entry for this manifest in an index.
    pub fn of(manifest: &Manifest, digest: Digest, size: u64) -> Self {
        Self {
            media_type: manifest.media_type.as_str().to_owned(),
            digest,
            size,
            artifact_type: manifest.artifact_type.clone(),
            annotations: manifest.annotations.clone(),
        }
    }
}

/// Maximum length of a response. The rest is on the next page.
pub const LONGEST_ANSWER: usize = 4 << 20;

/// The response to `GET /v2/NAME/referrers/DIGEST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The index, as JSON; its media type is [`MediaType::Index`].
    pub body: Vec<u8>,
    /// The last entry on this page, if some did not fit.
    pub cut_after: Option<Digest>,
    /// Whether to send `OCI-Filters-Applied: artifactType`.
    pub filtered: bool,
}

/// Builds the response, of at most [`LONGEST_ANSWER`] bytes. With `artifact_type`, it includes only manifests of that type.
pub fn answer(referrers: &[Referrer], artifact_type: Option<&str>) -> Answer {
    let wanted = artifact_type.filter(|wanted| !wanted.is_empty());
    let fits =
        |referrer: &&Referrer| wanted.is_none_or(|wanted| referrer.artifact_type.as_deref() == Some(wanted));
    let media_type = MediaType::Index.as_str();
    let mut body = format!(r#"{{"schemaVersion":2,"mediaType":"{media_type}","manifests":["#).into_bytes();
    let (mut last, mut cut_after) = (None, None);
    for referrer in referrers.iter().filter(fits) {
        let entry = serde_json::to_vec(referrer).expect("texts and numbers are always JSON");
        // One entry always fits: its annotations are bounded.
        if last.is_some() && body.len() + entry.len() + "],}".len() > LONGEST_ANSWER {
            cut_after = last;
            break;
        }
        if last.is_some() {
            body.push(b',');
        }
        body.extend_from_slice(&entry);
        last = Some(referrer.digest);
    }
    body.extend_from_slice(b"]}");
    Answer { body, cut_after, filtered: wanted.is_some() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn referrer(number: u8, artifact_type: Option<&str>) -> Referrer {
        Referrer {
            media_type: MediaType::Image.as_str().to_owned(),
            digest: Digest::of(&[number]),
            size: 7,
            artifact_type: artifact_type.map(str::to_owned),
            annotations: BTreeMap::new(),
        }
    }

    fn digests(answer: &Answer) -> Vec<Value> {
        let index: Value = serde_json::from_slice(&answer.body).unwrap();
        index["manifests"].as_array().unwrap().iter().map(|entry| entry["digest"].clone()).collect()
    }

    #[test]
    fn an_answer_is_an_index_that_we_would_take_ourselves() {
        let mut signature = referrer(1, Some("application/vnd.example.signature"));
        signature.annotations.insert("a".to_owned(), "b".to_owned());
        let answer = answer(&[signature.clone(), referrer(2, None)], None);
        assert!(!answer.filtered);
        let manifest = Manifest::parse(&answer.body, Some(MediaType::Index.as_str())).unwrap();
        assert_eq!(manifest.children.len(), 2);
        assert_eq!(manifest.children[0].annotations, signature.annotations);
        let index: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(index["manifests"][0]["artifactType"], json!("application/vnd.example.signature"));
        assert_eq!(index["manifests"][1].get("artifactType"), None);
    }

    #[test]
    fn an_answer_ends_where_it_would_become_too_long() {
        let mut all: Vec<Referrer> = (0..20).map(|number| referrer(number, Some("a/b"))).collect();
        for referrer in &mut all {
            // Escapes to six bytes of JSON per byte of text.
            referrer.annotations.insert("text".to_owned(), "\u{1}".repeat(64 << 10));
        }
        let mut seen = Vec::new();
        while !all.is_empty() {
            let answer = answer(&all, None);
            assert!(answer.body.len() <= LONGEST_ANSWER, "{}", answer.body.len());
            let page = digests(&answer);
            all.drain(..page.len());
            assert_eq!(answer.cut_after.is_some(), !all.is_empty());
            seen.extend(page);
        }
        assert_eq!(seen.len(), 20);
    }

    #[test]
    fn manifest_without_referrers_yields_an_empty_list() {
        let answer = answer(&[], Some("a/b"));
        assert!(answer.filtered);
        assert_eq!(digests(&answer), Vec::<Value>::new());
    }

    #[test]
    fn a_filter_leaves_only_that_type() {
        let all = [referrer(1, Some("a/b")), referrer(2, Some("a/c")), referrer(3, None)];
        assert_eq!(digests(&answer(&all, Some("a/b"))), [json!(all[0].digest)]);
        assert_eq!(digests(&answer(&all, Some("a/x"))), Vec::<Value>::new());
        assert_eq!(digests(&answer(&all, Some(""))).len(), 3);
    }

    #[test]
    fn a_referrer_s_type_falls_back_to_its_configuration_s() {
        let digest = Digest::of(b"");
        let text = json!({
            "schemaVersion": 2,
            "mediaType": MediaType::Image.as_str(),
            "config": {"mediaType": "application/vnd.example.config", "digest": digest, "size": 0},
            "layers": [],
            "annotations": {"k": "v"},
        })
        .to_string();
        let manifest = Manifest::parse(text.as_bytes(), None).unwrap();
        let referrer = Referrer::of(&manifest, Digest::of(text.as_bytes()), text.len() as u64);
        assert_eq!(referrer.artifact_type.as_deref(), Some("application/vnd.example.config"));
        assert_eq!(referrer.annotations["k"], "v");
    }
}
