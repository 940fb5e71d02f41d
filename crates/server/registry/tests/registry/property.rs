//! Content is the same, however it is split into requests and parts.

use std::sync::LazyLock;

use muster_registry::UploadError;
use proptest::prelude::*;

use crate::shelf::{MOST, Shelf, body, broken, digest, noise, nothing, parts};

#[derive(Debug, Clone)]
enum Step {
    /// A request with this many bytes, in parts of this size.
    Append(usize, usize),
    /// The same, and then the connection breaks.
    Break(usize),
    /// A request with a wrong offset.
    Astray(u64),
    /// A restart of the server.
    Restart,
}

/// Returns enough content for the longest steps; built once, because building it takes longer than storing it.
fn content() -> &'static [u8] {
    static CONTENT: LazyLock<Vec<u8>> = LazyLock::new(|| noise(9 * 700_000));
    &CONTENT
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0_usize..700_000, 1_usize..600_000).prop_map(|(length, part)| Step::Append(length, part)),
        2 => (0_usize..700_000).prop_map(Step::Break),
        1 => (1_u64..1000).prop_map(Step::Astray),
        1 => Just(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_chunking_is_the_whole(steps in prop::collection::vec(step(), 0..8), last in 0_usize..700_000) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let shelf = Shelf::new().await;
            let content = content();
            let (owner, upload) = shelf.start().await;
            let mut server = shelf.blobs.clone();
            let mut at = 0;
            for step in steps {
                match step {
                    Step::Append(length, part) => {
                        let bytes = parts(content[at..at + length].chunks(part));
                        at += length;
                        let expect = Some((at - length) as u64);
                        let append = server.upload_append(owner, upload, expect, MOST, bytes).await;
                        assert_eq!(append.unwrap(), at as u64);
                    }
                    Step::Break(length) => {
                        let bytes = broken(&content[at..at + length]);
                        at += length;
                        let append = server.upload_append(owner, upload, None, MOST, bytes).await;
                        assert!(matches!(append, Err(UploadError::Broken { .. })));
                    }
                    Step::Astray(by) => {
                        let expect = Some(at as u64 + by);
                        let append = server.upload_append(owner, upload, expect, MOST, body(b"astray")).await;
                        assert!(matches!(append, Err(UploadError::Offset { length }) if length == at as u64));
                    }
                    Step::Restart => server = shelf.another_server().await,
                }
                assert_eq!(server.upload_length(owner, upload).await.unwrap(), Some(at as u64));
            }
            let whole = &content[..at + last];
            let rest = if last == 0 { nothing() } else { body(&whole[at..]) };
            let finish = server.upload_finish(owner, upload, &digest(whole), None, MOST, rest).await;
            let finished = finish.unwrap();
            assert!(shelf.content(&finished).await == whole);
        });
    }
}
