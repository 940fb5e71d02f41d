//! Which texts are keys, and the errors for the others.

use muster_trust::{Algorithm, PrivateKey, PrivateKeyError, PublicKey, PublicKeyError};

use crate::openssl::{ED25519, OpenSsl, P256, P384, RSA};

fn public(openssl: &OpenSsl) -> Result<PublicKey, PublicKeyError> {
    PublicKey::from_pem(&openssl.read("pub.pem"))
}

#[test]
fn each_kind_has_its_word() {
    for (kind, word) in [(P256, "ecdsa-p256"), (P384, "ecdsa-p384"), (ED25519, "ed25519"), (RSA, "rsa")] {
        let openssl = OpenSsl::new();
        openssl.genpkey(kind);
        let key = public(&openssl).unwrap();
        assert_eq!(key.algorithm().word(), word);
        assert_eq!(serde_json::to_value(key.algorithm()).unwrap(), word);
        assert_eq!(PublicKey::from_der(key.der()).unwrap(), key);
    }
    assert_eq!(Algorithm::ALL.len(), 4);
}

#[test]
fn other_curves_and_short_keys_are_refused() {
    for curve in ["P-521", "secp256k1", "P-224", "brainpoolP256r1"] {
        let openssl = OpenSsl::new();
        openssl.genpkey(&["-algorithm", "EC", "-pkeyopt", &format!("ec_paramgen_curve:{curve}")]);
        assert_eq!(public(&openssl), Err(PublicKeyError::Curve), "{curve}");
        let private = PrivateKey::from_pem(&openssl.read("key.pem"));
        assert_eq!(private.unwrap_err(), PrivateKeyError::Unknown, "{curve}");
    }
    let openssl = OpenSsl::new();
    openssl.genpkey(&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024"]);
    assert_eq!(public(&openssl), Err(PublicKeyError::RsaBits(1024)));
    openssl.genpkey(&["-algorithm", "X25519"]);
    assert_eq!(public(&openssl), Err(PublicKeyError::Unknown));
    openssl.genpkey(RSA);
    assert_eq!(PrivateKey::from_pem(&openssl.read("key.pem")).unwrap_err(), PrivateKeyError::Unknown);
}

#[test]
fn one_key_has_one_form() {
    let openssl = OpenSsl::new();
    openssl.genpkey(P256);
    let key = public(&openssl).unwrap();
    openssl.run(&["ec", "-pubin", "-in", "pub.pem", "-conv_form", "compressed", "-out", "compressed.pem"]);
    assert_eq!(PublicKey::from_pem(&openssl.read("compressed.pem")), Err(PublicKeyError::Form));
    // The bare point and the DER with trailing bytes are the same key in another form.
    let point = &key.der()[key.der().len() - 65..];
    assert!(PublicKey::from_der(point).is_err());
    assert!(PublicKey::from_der(&[key.der(), &[0]].concat()).is_err());
    // The advice in the error leads to the accepted form.
    let rewrite = ["pkey", "-pubin", "-pubout", "-ec_conv_form", "uncompressed"];
    openssl.run(&[&rewrite[..], &["-in", "compressed.pem", "-out", "again.pem"]].concat());
    assert_eq!(PublicKey::from_pem(&openssl.read("again.pem")).unwrap(), key);
}

#[test]
fn pem_that_is_no_public_key_is_refused_by_kind() {
    let openssl = OpenSsl::new();
    openssl.genpkey(P256);
    openssl.run(&["req", "-x509", "-new", "-key", "key.pem", "-subj", "/CN=x", "-out", "certificate.pem"]);
    openssl.run(&["pkcs8", "-topk8", "-in", "key.pem", "-passout", "pass:secret", "-out", "locked.pem"]);
    openssl.run(&["ecparam", "-name", "prime256v1", "-genkey", "-out", "sec1.pem"]);
    for (name, error) in [
        ("certificate.pem", PublicKeyError::Certificate),
        ("key.pem", PublicKeyError::Private),
        ("locked.pem", PublicKeyError::Private),
        ("sec1.pem", PublicKeyError::Private),
    ] {
        assert_eq!(PublicKey::from_pem(&openssl.read(name)), Err(error), "{name}");
    }
    let two = openssl.read("pub.pem").repeat(2);
    assert!(
        matches!(PublicKey::from_pem(&two), Err(PublicKeyError::Pem(why)) if why.contains("more than one"))
    );
    let long = openssl.read("pub.pem") + &" ".repeat(20_000);
    assert!(
        matches!(PublicKey::from_pem(&long), Err(PublicKeyError::Pem(why)) if why.contains("longer than"))
    );

    assert_eq!(PrivateKey::from_pem(&openssl.read("locked.pem")).unwrap_err(), PrivateKeyError::Encrypted);
    let old = PrivateKey::from_pem(&openssl.read("sec1.pem")).unwrap_err();
    assert_eq!(old, PrivateKeyError::OldForm("EC PRIVATE KEY".into()));
    // The advice in the error leads to an accepted key.
    openssl.run(&["pkcs8", "-topk8", "-nocrypt", "-in", "sec1.pem", "-out", "pkcs8.pem"]);
    assert!(PrivateKey::from_pem(&openssl.read("pkcs8.pem")).is_ok());
}

#[test]
fn ed25519_and_p384_keys_come_back_from_their_pem() {
    for kind in [ED25519, P384] {
        let openssl = OpenSsl::new();
        openssl.genpkey(kind);
        let key = PrivateKey::from_pem(&openssl.read("key.pem")).unwrap();
        assert_eq!(key.public(), &public(&openssl).unwrap());
        let again = PrivateKey::from_pem(&key.to_pem()).unwrap();
        assert!(key.public().verify(b"content", &again.sign(b"content")));
    }
}
