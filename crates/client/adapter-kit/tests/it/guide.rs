//! The guide only shows real code: its quotes are compared with files that are compiled or run.

use std::path::Path;

#[test]
fn guide_quotes_match_their_source_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let guide = read("docs/guides/write-an-adapter.md");
    let sources = [
        ("```rust\n", read("crates/client/adapter-kit/examples/hub_and_units.rs")),
        ("```python\n", read("adapters/example-python/adapter.py")),
        ("```json\n", read("adapters/example-python/manifest.json")),
    ];
    for (fence, source) in sources {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let quotes: Vec<&str> =
            guide.split(fence).skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(!quotes.is_empty(), "nothing is quoted after {fence:?}");
        for quote in quotes {
            // A manifest is indented deeper in its file; only words and their order count.
            assert!(
                squeezed(&source).contains(&squeezed(quote)),
                "the guide quotes what is not there:\n{quote}"
            );
        }
    }
}
