//! Verdicts by signatures and keys.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use muster_trust::{
    Difference, Digest, MOST_BUNDLE, MOST_PAYLOAD, MOST_SIGNATURES, PrivateKey, Reason, Signature, Subject,
    TrustedKey, Verdict, bundle, decide, simple,
};

fn manifest() -> Digest {
    Digest::of(b"the manifest")
}

fn subject() -> Subject<'static> {
    Subject { manifest_digest: manifest(), files: None }
}

fn files() -> Vec<(String, Digest)> {
    ["config.json", "model/weights.bin"].map(|name| (name.to_owned(), Digest::of(name.as_bytes()))).into()
}

fn trusted(id: &str, key: &PrivateKey) -> TrustedKey {
    TrustedKey { id: id.into(), key: key.public().clone(), revoked: false }
}

fn revoked(id: &str, key: &PrivateKey) -> TrustedKey {
    TrustedKey { revoked: true, ..trusted(id, key) }
}

fn simple_over(key: &PrivateKey, payload: Vec<u8>) -> Signature {
    Signature::Simple { signature: key.sign(&payload), digest: Digest::of(&payload), payload }
}

fn simple(key: &PrivateKey, manifest: &Digest) -> Signature {
    simple_over(key, simple::payload(manifest, "site/app"))
}

fn bundled(json: Vec<u8>) -> Signature {
    Signature::Bundle { digest: Digest::of(&json), json }
}

/// Returns a bundle over any statement, as another tool may create it.
fn envelope(key: &PrivateKey, statement: &str) -> Signature {
    let kind = "application/vnd.in-toto+json";
    let signed = format!("DSSEv1 {} {kind} {} {statement}", kind.len(), statement.len());
    let json = serde_json::json!({
        "mediaType": bundle::MEDIA_TYPE,
        "verificationMaterial": { "publicKey": { "hint": "" }, "tlogEntries": [] },
        "dsseEnvelope": {
            "payload": STANDARD.encode(statement),
            "payloadType": kind,
            "signatures": [{ "sig": STANDARD.encode(key.sign(signed.as_bytes())) }],
        },
    });
    bundled(serde_json::to_vec(&json).unwrap())
}

fn statement(kind: &str, digests: &[Digest]) -> String {
    let subjects: Vec<_> =
        digests.iter().map(|d| serde_json::json!({ "digest": { "sha256": d.hex() } })).collect();
    serde_json::json!({ "_type": "https://in-toto.io/Statement/v1", "subject": subjects, "predicateType": kind, "predicate": {} })
        .to_string()
}

fn message(key: &PrivateKey, bytes: &[u8]) -> Signature {
    let json = serde_json::json!({
        "mediaType": bundle::MEDIA_TYPE,
        "verificationMaterial": { "publicKey": {} },
        "messageSignature": {
            "messageDigest": { "algorithm": "SHA2_256", "digest": STANDARD.encode(Digest::of(bytes).bytes()) },
            "signature": STANDARD.encode(key.sign(bytes)),
        },
    });
    bundled(serde_json::to_vec(&json).unwrap())
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Trusted { .. } => "trusted",
        Verdict::Unsigned => "unsigned",
        Verdict::Untrusted { reason } => reason.word(),
    }
}

#[test]
fn every_way_of_signing_leads_to_trust() {
    let key = PrivateKey::generate();
    let files = files();
    let ways = [
        simple(&key, &manifest()),
        bundled(bundle::sign_manifest(&key, &manifest())),
        envelope(&key, &statement("https://sigstore.dev/cosign/sign/v1", &[Digest::of(b""), manifest()])),
        message(&key, b"the manifest"),
        bundled(bundle::sign_files(&key, "folder", &files).unwrap()),
    ];
    for signature in ways {
        let subject = Subject { manifest_digest: manifest(), files: Some(&files) };
        let keys = [trusted("other", &PrivateKey::generate()), trusted("ours", &key)];
        let signature_digest = *signature.digest();
        let expected = Verdict::Trusted { key_id: "ours".into(), signature_digest };
        assert_eq!(decide(&subject, &[signature], &keys), expected);
    }
}

#[test]
fn every_way_of_signing_something_else_is_named() {
    let key = PrivateKey::generate();
    let other = Digest::of(b"another manifest");
    let known = Difference::OtherManifest { signed: Some(other) };
    let unknown = Difference::OtherManifest { signed: None };
    for (signature, difference) in [
        (simple(&key, &other), known.clone()),
        (bundled(bundle::sign_manifest(&key, &other)), known.clone()),
        (message(&key, b"another manifest"), known),
        (envelope(&key, &statement("https://sigstore.dev/cosign/sign/v1", &[])), unknown),
        (bundled(bundle::sign_files(&key, "folder", &files()).unwrap()), Difference::NotFiles),
    ] {
        let verdict = decide(&subject(), &[signature], &[trusted("ours", &key)]);
        assert_eq!(verdict, Verdict::Untrusted { reason: Reason::WrongDigest { difference } });
    }
}

#[test]
fn a_changed_file_is_named() {
    let key = PrivateKey::generate();
    let signature = [bundled(bundle::sign_files(&key, "folder", &files()).unwrap())];
    let mut changed = files();
    changed[1].1 = Digest::of(b"other weights");
    let subject = Subject { manifest_digest: manifest(), files: Some(&changed) };
    let verdict = decide(&subject, &signature, &[trusted("ours", &key)]);
    let Verdict::Untrusted { reason } = verdict else { panic!("{verdict:?}") };
    assert_eq!(reason.word(), "wrong_digest");
    assert!(reason.to_string().contains("\"model/weights.bin\" has different content"), "{reason}");
}

#[test]
fn without_a_signature_it_is_unsigned_and_attestations_are_none() {
    let key = PrivateKey::generate();
    let keys = [trusted("ours", &key)];
    assert_eq!(decide(&subject(), &[], &keys), Verdict::Unsigned);
    let attestation = envelope(&key, &statement("https://slsa.dev/provenance/v1", &[manifest()]));
    assert_eq!(decide(&subject(), &[attestation], &keys), Verdict::Unsigned);
}

#[test]
fn a_revoked_key_trusts_nothing() {
    let (key, other) = (PrivateKey::generate(), PrivateKey::generate());
    let signed = [simple(&key, &manifest()), bundled(bundle::sign_manifest(&key, &manifest()))];
    let by_revoked = Verdict::Untrusted { reason: Reason::RevokedKey { key_id: "old".into() } };
    assert_eq!(decide(&subject(), &signed, &[revoked("old", &key)]), by_revoked);
    // The same key under a second id does not restore trust, in either order.
    assert_eq!(decide(&subject(), &signed, &[trusted("new", &key), revoked("old", &key)]), by_revoked);
    assert_eq!(decide(&subject(), &signed, &[revoked("old", &key), trusted("new", &key)]), by_revoked);
    // Another key's good signature counts, whatever else there is.
    let both = [signed[0].clone(), simple(&other, &manifest())];
    let keys = [revoked("old", &key), trusted("new", &other)];
    assert_eq!(word(&decide(&subject(), &both, &keys)), "trusted");
    // Nor does a revoked key's signature over other content count as one over this.
    let elsewhere = [simple(&key, &Digest::of(b"else"))];
    assert_eq!(word(&decide(&subject(), &elsewhere, &[revoked("old", &key)])), "wrong_digest");
}

#[test]
fn an_unknown_key_is_told_from_a_damaged_signature_where_that_is_possible() {
    let (key, other) = (PrivateKey::generate(), PrivateKey::generate());
    let keys = [trusted("ours", &key)];
    let by_other = Verdict::Untrusted { reason: Reason::OtherKey { tried: 1 } };
    assert_eq!(decide(&subject(), &[simple(&other, &manifest())], &keys), by_other);
    assert_eq!(decide(&subject(), &[bundled(bundle::sign_manifest(&other, &manifest()))], &keys), by_other);
    // Two bundles with swapped signatures: the hint names our key, and our key did not sign this.
    let mut ours: serde_json::Value =
        serde_json::from_slice(&bundle::sign_manifest(&key, &manifest())).unwrap();
    let theirs: serde_json::Value =
        serde_json::from_slice(&bundle::sign_manifest(&other, &manifest())).unwrap();
    ours["dsseEnvelope"]["signatures"] = theirs["dsseEnvelope"]["signatures"].clone();
    let verdict = decide(&subject(), &[bundled(serde_json::to_vec(&ours).unwrap())], &keys);
    assert_eq!(verdict, Verdict::Untrusted { reason: Reason::BadSignature { key_id: "ours".into() } });
    // A wrong hint on a good signature changes nothing: hints are not trusted.
    let mut lying: serde_json::Value =
        serde_json::from_slice(&bundle::sign_manifest(&key, &manifest())).unwrap();
    lying["verificationMaterial"] = theirs["verificationMaterial"].clone();
    assert_eq!(word(&decide(&subject(), &[bundled(serde_json::to_vec(&lying).unwrap())], &keys)), "trusted");
    let none = decide(&subject(), &[simple(&key, &manifest())], &[]);
    assert_eq!(none, Verdict::Untrusted { reason: Reason::OtherKey { tried: 0 } });
}

#[test]
fn unreadable_signature_is_malformed() {
    let key = PrivateKey::generate();
    let good = simple::payload(&manifest(), "a");
    let digest = Digest::of(&good);
    let text = String::from_utf8(good.clone()).unwrap();
    let huge = [text.trim_end_matches('}'), ",\"more\":\"", &"x".repeat(MOST_PAYLOAD), "\"}"].concat();
    for (signature, says) in [
        (Signature::Simple { payload: good.clone(), signature: vec![], digest }, "contains no signature"),
        (Signature::Simple { signature: key.sign(&good), payload: good, digest: manifest() }, "not that of"),
        (simple_over(&key, b"words".to_vec()), "not a simple signing document"),
        (simple_over(&key, text.replace("container", "other").into_bytes()), "has the type"),
        (simple_over(&key, huge.into_bytes()), "longer than"),
        (bundled(b"words".to_vec()), "not a Sigstore bundle"),
        (bundled(vec![b' '; MOST_BUNDLE + 1]), "longer than"),
        (envelope(&key, &format!("\"{}\"", "x".repeat(MOST_PAYLOAD))), "longer than"),
        (envelope(&key, "words"), "not an in-toto statement"),
        (envelope(&key, &statement("https://model_signing/signature/v1.0", &[manifest()])), "list of files"),
    ] {
        let verdict = decide(&subject(), &[signature], &[trusted("ours", &key)]);
        let Verdict::Untrusted { reason: Reason::Malformed { why } } = verdict else {
            panic!("{says}: {verdict:?}")
        };
        assert!(why.contains(says), "{why}");
    }
}

#[test]
fn an_image_signature_is_never_read_as_another_kind() {
    // The same bytes signed by the same key, in the envelope of another format.
    let key = PrivateKey::generate();
    let payload = simple::payload(&manifest(), "a");
    let json = serde_json::json!({
        "mediaType": bundle::MEDIA_TYPE,
        "dsseEnvelope": {
            "payload": STANDARD.encode(statement("https://sigstore.dev/cosign/sign/v1", &[manifest()])),
            "payloadType": "application/vnd.in-toto+json",
            "signatures": [{ "sig": STANDARD.encode(key.sign(&payload)) }],
        },
    });
    let carried = bundled(serde_json::to_vec(&json).unwrap());
    assert_eq!(word(&decide(&subject(), &[carried], &[trusted("ours", &key)])), "other_key");
}

#[test]
fn one_good_signature_suffices_and_the_nearest_reason_is_told() {
    let (key, old, other) = (PrivateKey::generate(), PrivateKey::generate(), PrivateKey::generate());
    let keys = [trusted("ours", &key), revoked("old", &old)];
    // From the farthest to the closest; each must win over all before it, at any position.
    let bad = [
        bundled(b"words".to_vec()),
        simple(&other, &manifest()),
        simple(&key, &Digest::of(b"else")),
        simple(&old, &manifest()),
    ];
    let words = ["malformed", "other_key", "wrong_digest", "revoked_key"];
    for upto in 1..=bad.len() {
        let mut some = bad[..upto].to_vec();
        assert_eq!(word(&decide(&subject(), &some, &keys)), words[upto - 1]);
        some.reverse();
        assert_eq!(word(&decide(&subject(), &some, &keys)), words[upto - 1]);
        some.insert(upto / 2, simple(&key, &manifest()));
        assert_eq!(word(&decide(&subject(), &some, &keys)), "trusted");
    }
}

/// A client with push permission adds signatures before and after the good one, and malformed copies of it.
#[test]
fn a_thousand_bad_signatures_do_not_crowd_the_good_one_out() {
    let (key, other) = (PrivateKey::generate(), PrivateKey::generate());
    let keys = [trusted("ours", &key)];
    let good = simple(&key, &manifest());
    let Signature::Simple { signature: stranger, .. } = simple(&other, &manifest()) else { unreachable!() };
    let junk = |n: usize| {
        let payload = n.to_le_bytes().to_vec();
        let digest = Digest::of(&payload);
        Signature::Simple { payload, signature: stranger.clone(), digest }
    };
    let Signature::Simple { signature, digest, .. } = good.clone() else { unreachable!() };
    let mut many = vec![Signature::Simple { payload: Vec::new(), signature, digest }];
    many.extend((0..1000).map(junk));
    assert_eq!(word(&decide(&subject(), &many, &keys)), "other_key");
    for place in [0, 500, many.len()] {
        let mut with_good = many.clone();
        with_good.insert(place, good.clone());
        assert_eq!(word(&decide(&subject(), &with_good, &keys)), "trusted", "{place}");
    }
}

#[test]
fn only_so_many_signatures_are_looked_at_and_repeated_ones_do_not_count() {
    let key = PrivateKey::generate();
    let keys = [trusted("ours", &key)];
    let good = simple(&key, &manifest());
    // Too short for a signature, so that no cryptography is needed.
    let junk = |n: usize| {
        let payload = n.to_le_bytes().to_vec();
        Signature::Simple { digest: Digest::of(&payload), payload, signature: Vec::new() }
    };
    let mut many: Vec<_> = (0..MOST_SIGNATURES - 1).map(junk).collect();
    many.extend(many.clone());
    many.push(good.clone());
    assert_eq!(word(&decide(&subject(), &many, &keys)), "trusted");
    many.insert(0, junk(MOST_SIGNATURES));
    assert_eq!(word(&decide(&subject(), &many, &keys)), "malformed");
}

#[test]
fn a_verdict_goes_over_a_wire_and_comes_back() {
    let verdicts = [
        Verdict::Trusted { key_id: "k".into(), signature_digest: manifest() },
        Verdict::Unsigned,
        Verdict::Untrusted { reason: Reason::RevokedKey { key_id: "k".into() } },
        Verdict::Untrusted { reason: Reason::OtherKey { tried: 2 } },
        Verdict::Untrusted { reason: Reason::BadSignature { key_id: "k".into() } },
        Verdict::Untrusted { reason: Reason::Malformed { why: "why".into() } },
        Verdict::Untrusted { reason: Reason::WrongDigest { difference: Difference::NotFiles } },
    ];
    for verdict in verdicts {
        let json = serde_json::to_value(&verdict).unwrap();
        if let Verdict::Untrusted { reason } = &verdict {
            assert_eq!(json["verdict"], "untrusted");
            assert_eq!(json["reason"]["word"], reason.word());
        }
        assert_eq!(serde_json::from_value::<Verdict>(json).unwrap(), verdict);
    }
    let renamed = Difference::FileRenamed { from: "a".into(), to: "b".into() };
    let json =
        serde_json::to_string(&Verdict::Untrusted { reason: Reason::WrongDigest { difference: renamed } })
            .unwrap();
    let expected = r#"{"verdict":"untrusted","reason":{"word":"wrong_digest","difference":{"what":"file_renamed","from":"a","to":"b"}}}"#;
    assert_eq!(json, expected);
}

#[test]
fn untrusted_text_is_truncated_in_messages() {
    let key = PrivateKey::generate();
    let long = format!("{}\n\u{1b}[31m", "n".repeat(5000));
    let signed = [(long.clone(), manifest())];
    let signature = [bundled(bundle::sign_files(&key, "f", &signed).unwrap())];
    let subject = Subject { manifest_digest: manifest(), files: Some(&[]) };
    let verdict = decide(&subject, &signature, &[trusted("ours", &key)]);
    let json = serde_json::to_string(&verdict).unwrap();
    assert!(json.len() < 500 && json.contains("file_missing"), "{json}");
}
