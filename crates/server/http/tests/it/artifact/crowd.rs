//! Many bad signatures beside a good one, pushed by any account with push permission.

use muster_testkit::Database;
use muster_trust::{Attachment, Descriptor, Digest, PrivateKey, bundle};
use serde_json::{Value, json};

use super::{Shelf, attach};
use crate::registry::{Image, MANIFEST, digest};

fn subject(image: &Image) -> Descriptor {
    let (digest, size) = (Digest::of(&image.manifest), image.manifest.len() as u64);
    Descriptor { media_type: MANIFEST.to_owned(), digest, size }
}

/// Returns a signature's manifest with a changed annotation, so that its digest differs.
fn another(attachment: &Attachment, number: usize) -> Vec<u8> {
    let mut manifest: Value = serde_json::from_slice(&attachment.manifest.bytes).unwrap();
    manifest["annotations"]["number"] = json!(number.to_string());
    manifest.to_string().into_bytes()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_bad_signatures_do_not_crowd_the_good_one_out() {
    let shelf = Shelf::new(Database::sqlite()).await;
    let (key, _) = shelf.key("publisher").await;
    let image = Image::of("one");
    let id = shelf.pushed("one").await;
    let stranger = PrivateKey::generate();
    let junk = bundle::attach(&subject(&image), bundle::sign_manifest(&stranger, &Digest::of(b"x"))).unwrap();
    attach(&shelf.remote, &junk, &junk.manifest.descriptor.digest.to_string()).await;
    // Signatures are read in digest order, so one from the upper half comes after hundreds of bad ones.
    let good = std::iter::repeat_with(|| {
        let bundle = bundle::sign_manifest(&key, &subject(&image).digest);
        bundle::attach(&subject(&image), bundle).unwrap()
    });
    let mut good = good.take(100);
    let good = good.find(|good| good.manifest.descriptor.digest.hex().as_str() > "8").unwrap();
    let mut before = 0;
    for number in 0..1000 {
        if number == 500 {
            shelf.promote(&id, "staged").await.refused(409, "untrusted");
            attach(&shelf.remote, &good, &good.manifest.descriptor.digest.to_string()).await;
        }
        let manifest = another(&junk, number);
        before += usize::from(digest(&manifest) < good.manifest.descriptor.digest.to_string());
        shelf.remote.manifest(&digest(&manifest), &manifest).await.is(201);
    }
    assert!(before > 300, "{before}");
    shelf.promote(&id, "staged").await.ok();
    let verdict = shelf.shown(&id).await["verdict"].clone();
    assert_eq!(verdict["trust"], "trusted", "{verdict}");
}

/// The registry accepts no more signatures than it examines, so every accepted one is found. Others are refused at the
/// push.
#[tokio::test(flavor = "multi_thread")]
async fn signatures_beyond_what_is_examined_are_refused_at_their_push() {
    let shelf = Shelf::new(Database::sqlite()).await;
    let image = Image::of("one");
    shelf.pushed("one").await;
    let small =
        bundle::attach(&subject(&image), bundle::sign_manifest(&PrivateKey::generate(), &Digest::of(b"x")));
    let small = small.unwrap();
    attach(&shelf.remote, &small, &small.manifest.descriptor.digest.to_string()).await;
    let large = vec![b' '; 40 << 20];
    shelf.remote.blob(&large).await.is(201);
    let heavy = |number: usize| {
        let mut manifest: Value = serde_json::from_slice(&another(&small, number)).unwrap();
        manifest["layers"][0]["digest"] = json!(digest(&large));
        manifest["layers"][0]["size"] = json!(large.len());
        manifest.to_string().into_bytes()
    };
    let push = async |manifest: &[u8]| shelf.remote.manifest(&digest(manifest), manifest).await;
    push(&heavy(1)).await.is(201);
    let refused = push(&heavy(2)).await.refused(403, "DENIED");
    assert!(refused.text().contains("delete some"), "{}", refused.text());
    // Existing content may be pushed again.
    push(&heavy(1)).await.is(201);
}
