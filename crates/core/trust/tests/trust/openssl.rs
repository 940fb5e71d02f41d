//! OpenSSL as a second implementation: it generates keys that are read here, and each side verifies the other's signatures.

use std::path::{Path, PathBuf};
use std::process::Command;

use muster_trust::{
    Algorithm, Digest, PrivateKey, PublicKey, Signature, Subject, TrustedKey, Verdict, decide, simple,
};
use tempfile::TempDir;

/// A folder in which OpenSSL runs.
pub(crate) struct OpenSsl(TempDir);

impl OpenSsl {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs OpenSSL and reports whether it succeeded. File names are relative to the folder.
    pub(crate) fn try_run(&self, words: &[&str]) -> bool {
        let ran = Command::new("openssl").args(words).current_dir(&self.0).output().unwrap();
        ran.status.success()
    }

    pub(crate) fn run(&self, words: &[&str]) {
        assert!(self.try_run(words), "openssl {words:?}");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    /// Generates a key pair in `key.pem` and `pub.pem`.
    pub(crate) fn genpkey(&self, words: &[&str]) {
        self.run(&[&["genpkey", "-out", "key.pem"], words].concat());
        self.run(&["pkey", "-in", "key.pem", "-pubout", "-out", "pub.pem"]);
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    fn folder(&self) -> &Path {
        self.0.path()
    }
}

pub(crate) const P256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
pub(crate) const P384: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"];
pub(crate) const ED25519: &[&str] = &["-algorithm", "ED25519"];
pub(crate) const RSA: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];

fn verdict(manifest: &Digest, payload: Vec<u8>, signature: Vec<u8>, key: PublicKey) -> Verdict {
    let subject = Subject { manifest_digest: *manifest, files: None };
    let signature = Signature::Simple { digest: Digest::of(&payload), payload, signature };
    decide(&subject, &[signature], &[TrustedKey { id: "k".into(), key, revoked: false }])
}

#[test]
fn openssl_signature_is_trusted_for_its_manifest_alone() {
    let manifest = Digest::of(b"manifest");
    let pkeyutl: &[&str] =
        &["pkeyutl", "-sign", "-rawin", "-inkey", "key.pem", "-in", "payload", "-out", "sig"];
    let dgst = |hash| ["dgst", hash, "-sign", "key.pem", "-out", "sig", "payload"].to_vec();
    let pss = ["dgst", "-sha256", "-sigopt", "rsa_padding_mode:pss", "-sigopt", "rsa_pss_saltlen:32"];
    let pss = [&pss[..], &["-sign", "key.pem", "-out", "sig", "payload"]].concat();
    for (kind, algorithm, sign) in [
        (P256, Algorithm::EcdsaP256, dgst("-sha256")),
        (P384, Algorithm::EcdsaP384, dgst("-sha384")),
        (P384, Algorithm::EcdsaP384, dgst("-sha256")),
        (ED25519, Algorithm::Ed25519, pkeyutl.to_vec()),
        (RSA, Algorithm::Rsa, dgst("-sha256")),
        (RSA, Algorithm::Rsa, pss),
    ] {
        let openssl = OpenSsl::new();
        openssl.genpkey(kind);
        let payload = simple::payload(&manifest, "site/app");
        openssl.write("payload", &payload);
        openssl.run(&sign);
        let key = PublicKey::from_pem(&openssl.read("pub.pem")).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        assert_eq!(key.to_pem(), openssl.read("pub.pem"));
        let found = verdict(&manifest, payload.clone(), openssl.bytes("sig"), key.clone());
        assert!(matches!(found, Verdict::Trusted { .. }), "{algorithm}: {found:?}");
        // Not for another manifest, and not by a weaker hash of the same content.
        let found = verdict(&Digest::of(b"other"), payload.clone(), openssl.bytes("sig"), key.clone());
        assert!(matches!(found, Verdict::Untrusted { .. }), "{algorithm}: {found:?}");
        if algorithm != Algorithm::Ed25519 {
            openssl.run(&dgst("-sha1"));
            let found = verdict(&manifest, payload, openssl.bytes("sig"), key);
            assert!(matches!(found, Verdict::Untrusted { .. }), "{algorithm}: {found:?}");
        }
    }
}

#[test]
fn our_signature_verifies_with_openssl() {
    let payload = simple::payload(&Digest::of(b"manifest"), "site/app");
    let dgst: &[&str] = &["dgst", "-sha256", "-verify", "ours.pem", "-signature", "sig", "payload"];
    let dgst_384: &[&str] = &["dgst", "-sha384", "-verify", "ours.pem", "-signature", "sig", "payload"];
    let pkeyutl: &[&str] = &[
        "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", "ours.pem", "-sigfile", "sig", "-in", "payload",
    ];
    for (kind, verify) in [(P256, dgst), (P384, dgst_384), (ED25519, pkeyutl)] {
        let openssl = OpenSsl::new();
        openssl.genpkey(kind);
        let key = PrivateKey::from_pem(&openssl.read("key.pem")).unwrap();
        openssl.write("ours.pem", key.public().to_pem());
        assert_eq!(openssl.read("ours.pem"), openssl.read("pub.pem"));
        openssl.write("payload", &payload);
        openssl.write("sig", key.sign(&payload));
        assert!(openssl.try_run(verify), "{kind:?}");
        openssl.write("payload", [&payload[..], b" "].concat());
        assert!(!openssl.try_run(verify), "{kind:?}");
    }
}

#[test]
fn openssl_reads_the_key_that_is_made_here() {
    let openssl = OpenSsl::new();
    let key = PrivateKey::generate();
    openssl.write("key.pem", key.to_pem().as_bytes());
    openssl.run(&["pkey", "-in", "key.pem", "-check", "-noout"]);
    openssl.run(&["pkey", "-in", "key.pem", "-pubout", "-out", "pub.pem"]);
    assert_eq!(openssl.read("pub.pem"), key.public().to_pem());
    openssl.run(&["pkey", "-pubin", "-in", "pub.pem", "-outform", "DER", "-out", "pub.der"]);
    let said = Command::new("sha256sum").arg("pub.der").current_dir(openssl.folder()).output().unwrap();
    let hex = String::from_utf8(said.stdout).unwrap()[..64].to_owned();
    assert_eq!(key.public().fingerprint(), format!("SHA256:{hex}"));
}
