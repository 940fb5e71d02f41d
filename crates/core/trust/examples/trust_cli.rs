//! The crate as a program, for tests that share no code with it (`tests/trust`), and for benchmarks.
//!
//!   trust_cli generate KEY PUB
//!   trust_cli fingerprint PUB
//!   trust_cli sign-simple KEY DIGEST REFERENCE FOLDER    payload, signature, config.json and manifest.json
//!   trust_cli sign-bundle KEY DIGEST SIZE FOLDER         bundle.json and manifest.json
//!   trust_cli sign-files KEY NAME BUNDLE < LIST          LIST is what `sha256sum` prints
//!   trust_cli verify-simple DIGEST FOLDER PUB...         reads what sign-simple or a stranger wrote
//!   trust_cli verify-bundle DIGEST BUNDLE PUB...
//!   trust_cli verify-files BUNDLE PUB... < LIST
//!   trust_cli measure
//!
//! Verifying prints the verdict as JSON and the message, and exits with 0 only when it is trusted. A PUB with `-` in
//! front is revoked.

use std::error::Error;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use muster_trust::{
    Descriptor, Digest, PrivateKey, PublicKey, Signature, Subject, TrustedKey, Verdict, bundle, decide,
    simple,
};

type Answer<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(None | Some(Verdict::Trusted { .. })) => ExitCode::SUCCESS,
        Ok(Some(_)) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}

fn run(words: &[&str]) -> Answer<Option<Verdict>> {
    match words {
        ["generate", private, public] => {
            let key = PrivateKey::generate();
            fs::write(private, key.to_pem().as_bytes())?;
            fs::write(public, key.public().to_pem())?;
        }
        ["fingerprint", public] => {
            let key = PublicKey::from_pem(&fs::read_to_string(public)?)?;
            println!("{} {}", key.algorithm(), key.fingerprint());
        }
        ["sign-simple", key, digest, reference, folder] => {
            let folder = Path::new(folder);
            let payload = simple::payload(&digest.parse()?, reference);
            let signature = private(key)?.sign(&payload);
            let attached = simple::attach(Vec::new(), payload.clone(), &signature);
            fs::write(folder.join("payload"), payload)?;
            fs::write(folder.join("signature"), signature)?;
            fs::write(folder.join("config.json"), &attached.blobs[0].bytes)?;
            fs::write(folder.join("manifest.json"), &attached.manifest.bytes)?;
        }
        ["sign-bundle", key, digest, size, folder] => {
            let digest = digest.parse()?;
            let media_type = "application/vnd.oci.image.manifest.v1+json".to_owned();
            let subject = Descriptor { media_type, digest, size: size.parse()? };
            let json = bundle::sign_manifest(&private(key)?, &digest);
            let attached = bundle::attach(&subject, json.clone())?;
            fs::write(Path::new(folder).join("bundle.json"), json)?;
            fs::write(Path::new(folder).join("manifest.json"), &attached.manifest.bytes)?;
        }
        ["sign-files", key, name, out] => {
            fs::write(out, bundle::sign_files(&private(key)?, name, &listed()?)?)?
        }
        ["verify-simple", digest, folder, keys @ ..] => {
            let manifest = fs::read(Path::new(folder).join("manifest.json"))?;
            let payload = fs::read(Path::new(folder).join("payload"))?;
            let found = simple::layers(&manifest)?.into_iter().map(|layer| Signature::Simple {
                payload: payload.clone(),
                signature: layer.signature,
                digest: layer.digest,
            });
            return verdict(digest.parse()?, None, &found.collect::<Vec<_>>(), keys);
        }
        ["verify-bundle", digest, path, keys @ ..] => {
            return verdict(digest.parse()?, None, &[read_bundle(path)?], keys);
        }
        ["verify-files", path, keys @ ..] => {
            let files = listed()?;
            return verdict(Digest::of(b"no manifest"), Some(&files), &[read_bundle(path)?], keys);
        }
        ["measure"] => measure()?,
        _ => return Err("the first comment of this program says what it understands".into()),
    }
    Ok(None)
}

fn private(path: &str) -> Answer<PrivateKey> {
    Ok(PrivateKey::from_pem(&fs::read_to_string(path)?)?)
}

fn read_bundle(path: &str) -> Answer<Signature> {
    let json = fs::read(path)?;
    Ok(Signature::Bundle { digest: Digest::of(&json), json })
}

/// Parses the output of `sha256sum`: the digest, two spaces and the name.
fn listed() -> Answer<Vec<(String, Digest)>> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let files = text.lines().map(|line| {
        let (hex, name) = line.split_once("  ").ok_or("a line of the list has no two spaces")?;
        Ok((name.to_owned(), Digest::from_hex(hex)?))
    });
    files.collect()
}

fn verdict(
    manifest_digest: Digest,
    files: Option<&[(String, Digest)]>,
    signatures: &[Signature],
    keys: &[&str],
) -> Answer<Option<Verdict>> {
    let keys = keys.iter().map(|word| {
        let path = word.strip_prefix('-').unwrap_or(word);
        let key = PublicKey::from_pem(&fs::read_to_string(path)?)?;
        Ok(TrustedKey { id: path.to_owned(), key, revoked: path != *word })
    });
    let keys = keys.collect::<Answer<Vec<_>>>()?;
    let verdict = decide(&Subject { manifest_digest, files }, signatures, &keys);
    println!("{}", serde_json::to_string(&verdict)?);
    if let Verdict::Untrusted { reason } = &verdict {
        println!("{reason}");
    }
    Ok(Some(verdict))
}

/// Measures the time of one decision: ordinary ones, and the worst that a client can push.
fn measure() -> Answer<()> {
    let key = PrivateKey::generate();
    let trusted = |key: &PrivateKey| TrustedKey { id: "k".into(), key: key.public().clone(), revoked: false };
    let ours = [trusted(&key)];
    let manifest_digest = Digest::of(b"manifest");
    let signed = |payload: Vec<u8>, by: &PrivateKey| Signature::Simple {
        signature: by.sign(&payload),
        digest: Digest::of(&payload),
        payload,
    };
    let bundled = |json: Vec<u8>| Signature::Bundle { digest: Digest::of(&json), json };
    let files: Vec<_> = (0..1000).map(|n| (format!("model/part-{n}.bin"), Digest::of(&[n as u8]))).collect();
    let subject = Subject { manifest_digest, files: Some(&files) };

    let stranger = PrivateKey::generate();
    let junk = |n: usize| signed(vec![n as u8; muster_trust::MOST_PAYLOAD], &stranger);
    let most = muster_trust::MOST_SIGNATURE_BYTES / muster_trust::MOST_PAYLOAD;
    let worst: Vec<_> = (0..most).map(junk).collect();
    let ten: Vec<_> = (0..10).map(|_| trusted(&PrivateKey::generate())).collect();
    let cases: [(&str, usize, Vec<Signature>, &[TrustedKey]); 5] = [
        ("simple", 1000, vec![signed(simple::payload(&manifest_digest, "site/app"), &key)], &ours),
        ("bundle", 1000, vec![bundled(bundle::sign_manifest(&key, &manifest_digest))], &ours),
        ("bundle of 1000 files", 100, vec![bundled(bundle::sign_files(&key, "model", &files)?)], &ours),
        ("64 strangers' signatures of 1 MiB, 1 key", 3, worst.clone(), &ours),
        ("64 strangers' signatures of 1 MiB, 10 keys", 3, worst, &ten),
    ];
    for (name, times, signatures, keys) in cases {
        let start = Instant::now();
        let trusted = (0..times)
            .filter(|_| matches!(decide(&subject, &signatures, keys), Verdict::Trusted { .. }))
            .count();
        let each = start.elapsed() / times as u32;
        println!("{name}: {each:?} each, {trusted} of {times} trusted");
    }
    Ok(())
}
