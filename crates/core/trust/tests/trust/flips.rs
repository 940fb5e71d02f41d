//! Corruption of any kind never leads to trust.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use muster_trust::{
    Digest, PrivateKey, PublicKey, Signature, Subject, TrustedKey, Verdict, bundle, decide, simple,
};
use proptest::prelude::*;
use proptest::sample::Index;

/// Each check costs a signature, and a case makes several.
fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) }
}

fn trusts(subject: &Subject<'_>, signature: Signature, key: &PrivateKey) -> bool {
    let keys = [TrustedKey { id: "k".into(), key: key.public().clone(), revoked: false }];
    matches!(decide(subject, &[signature], &keys), Verdict::Trusted { .. })
}

fn flip(bytes: &mut [u8], at: &Index, bits: u8) {
    let at = at.index(bytes.len());
    bytes[at] ^= bits;
}

/// Returns the bundle with some bits of its payload or signature flipped, everything else intact.
fn damaged(json: &[u8], pointer: &str, at: &Index, bits: u8) -> Signature {
    let mut bundle: serde_json::Value = serde_json::from_slice(json).unwrap();
    let text = bundle.pointer_mut(pointer).unwrap();
    let mut bytes = STANDARD.decode(text.as_str().unwrap()).unwrap();
    flip(&mut bytes, at, bits);
    *text = STANDARD.encode(bytes).into();
    let json = serde_json::to_vec(&bundle).unwrap();
    Signature::Bundle { digest: Digest::of(&json), json }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_flipped_bit_in_a_simple_signature_is_never_trusted(at: Index, bits in 1..=255u8, content: [u8; 8]) {
        let key = PrivateKey::generate();
        let manifest_digest = Digest::of(&content);
        let subject = Subject { manifest_digest, files: None };
        let payload = simple::payload(&manifest_digest, "site/app");
        let signature = key.sign(&payload);
        let made = |payload: &[u8], signature: &[u8]| Signature::Simple {
            payload: payload.to_vec(), signature: signature.to_vec(), digest: Digest::of(payload),
        };
        prop_assert!(trusts(&subject, made(&payload, &signature), &key));
        prop_assert!(!trusts(&subject, made(&payload, &signature), &PrivateKey::generate()));
        let mut other = payload.clone();
        flip(&mut other, &at, bits);
        prop_assert!(!trusts(&subject, made(&other, &signature), &key));
        let mut other = signature.clone();
        flip(&mut other, &at, bits);
        prop_assert!(!trusts(&subject, made(&payload, &other), &key));
        prop_assert!(!trusts(&subject, made(&payload, &signature[..at.index(signature.len())]), &key));
        prop_assert!(!trusts(&subject, made(&payload, &[&signature[..], &[bits]].concat()), &key));
    }

    #[test]
    fn a_flipped_bit_in_a_bundle_is_never_trusted(at: Index, bits in 1..=255u8, content: [u8; 8], of_files: bool) {
        let key = PrivateKey::generate();
        let manifest_digest = Digest::of(&content);
        let files = [("a".to_owned(), manifest_digest), ("b/c".to_owned(), Digest::of(b"c"))];
        let subject = Subject { manifest_digest, files: Some(&files) };
        let json = if of_files {
            bundle::sign_files(&key, "folder", &files).unwrap()
        } else {
            bundle::sign_manifest(&key, &manifest_digest)
        };
        let whole = Signature::Bundle { digest: Digest::of(&json), json: json.clone() };
        prop_assert!(trusts(&subject, whole.clone(), &key));
        prop_assert!(!trusts(&subject, whole, &PrivateKey::generate()));
        for pointer in ["/dsseEnvelope/payload", "/dsseEnvelope/signatures/0/sig"] {
            prop_assert!(!trusts(&subject, damaged(&json, pointer, &at, bits), &key));
        }
    }

    #[test]
    fn any_other_set_of_files_is_never_trusted(
        signed in prop::collection::btree_map("[a-c]{1,2}(/[a-c])?", 0..4u8, 1..6),
        there in prop::collection::vec(("[a-c]{1,2}(/[a-c])?", 0..4u8), 0..6),
    ) {
        let key = PrivateKey::generate();
        let of = |(name, content): (&String, &u8)| (name.clone(), Digest::of(&[*content]));
        let files: Vec<_> = signed.iter().map(of).collect();
        let found: Vec<_> = there.iter().map(|(name, content)| of((name, content))).collect();
        let json = bundle::sign_files(&key, "folder", &files).unwrap();
        let signature = Signature::Bundle { digest: Digest::of(&json), json };
        let manifest_digest = Digest::of(b"manifest");
        let mut sorted = found.clone();
        sorted.sort();
        let equal = sorted == files;
        let (whole, found) = (Some(&files[..]), Some(&found[..]));
        let trusted = trusts(&Subject { manifest_digest, files: whole }, signature.clone(), &key);
        prop_assert!(trusted);
        let trusted = trusts(&Subject { manifest_digest, files: found }, signature, &key);
        prop_assert_eq!(trusted, equal);
    }

    #[test]
    fn nothing_that_is_read_can_make_it_panic(bytes: Vec<u8>, text: String, at: Index) {
        let key = PrivateKey::generate();
        let manifest_digest = Digest::of(b"manifest");
        let subject = Subject { manifest_digest, files: Some(&[]) };
        // Also fragments of valid input: they get further than noise does.
        let good = bundle::sign_manifest(&key, &manifest_digest);
        let mut broken = good.clone();
        broken.splice(at.index(good.len()).., bytes.iter().copied());
        for json in [bytes.clone(), text.clone().into_bytes(), broken] {
            let digest = Digest::of(&json);
            let trusted = trusts(&subject, Signature::Bundle { json: json.clone(), digest }, &key);
            prop_assert!(!trusted);
            let (payload, signature) = (json.clone(), bytes.clone());
            let trusted = trusts(&subject, Signature::Simple { payload, signature, digest }, &key);
            prop_assert!(!trusted);
            // Parsing must return; its result for noise does not matter here.
            let _ = (simple::layers(&json), bundle::layers(&json));
        }
        prop_assert!(PublicKey::from_pem(&text).is_err());
        prop_assert!(PublicKey::from_der(&bytes).is_err());
        let pem = key.public().to_pem();
        let broken = pem[..at.index(pem.len())].to_owned() + &text;
        // If only the final newline was cut off, it is still the key, and never another one.
        prop_assert!(PublicKey::from_pem(&broken).is_ok_and(|read| read == *key.public()) || PublicKey::from_pem(&broken).is_err());
        prop_assert!(PrivateKey::from_pem(&text).is_err());
    }
}
