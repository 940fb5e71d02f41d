//! The manifests in the adapters' folders, published by tests and by readers of the guide, have no errors either.

use std::path::Path;

use muster_manifest::{Context, lint};

#[test]
fn no_manifest_of_an_adapter_has_a_fault() {
    let adapters = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../adapters");
    let mut linted = 0;
    for folder in std::fs::read_dir(adapters).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = std::fs::read_to_string(folder.join("manifest.json")) else { continue };
        // The publisher replaces the name with the digest of the pushed artifact.
        let filled = text.replace("${base}", &format!("sha256:{}", "ab".repeat(32)));
        let document = serde_json::from_str(&filled).unwrap();
        let context = Context { known_permissions: &[], grantable: &[] };
        assert_eq!(lint(&document, &context), [], "{}", folder.display());
        linted += 1;
    }
    assert!(linted >= 1, "no adapter has a manifest any more");
}
