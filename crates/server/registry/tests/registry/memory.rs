//! A large blob needs no more memory than a small one.

use std::path::Path;
use std::process::Stdio;

use bytes::Bytes;
use futures::{StreamExt, stream};
use muster_ids::Env;
use muster_registry::{Blobs, Digest};
use uuid::Uuid;

use crate::crash::again;
use crate::shelf::MOST;

const FOLDER: &str = "MUSTER_REGISTRY_TEST_MEMORY";
const PARTS: usize = 1 << 14;
const PART: usize = 1 << 16;
/// Digest of a GiB of zeros.
const ZEROS: &str = "sha256:49bc20df15e412a64472421e13fe86ff1c5165e18b2afccf160d4dc19fe68a14";

/// The child: stores a GiB and reads it back.
async fn through(folder: &Path) {
    let blobs = Blobs::open(folder, Env::system()).await.unwrap();
    let zeros = Bytes::from_static(&[0; PART]);
    let body = |parts| stream::iter(std::iter::repeat_n(zeros.clone(), parts)).map(Ok::<_, String>);
    let (owner, upload) = (Uuid::nil(), Env::system().uuid());
    blobs.upload_start(owner, upload).await.unwrap();
    blobs.upload_append(owner, upload, None, MOST, body(PARTS / 2)).await.unwrap();
    let digest: Digest = ZEROS.parse().unwrap();
    let finish = blobs.upload_finish(owner, upload, &digest, None, MOST, body(PARTS / 2));
    let finished = finish.await.unwrap();
    let mut reading = blobs.read(&finished.file, 0..finished.size).await.unwrap();
    let mut read = 0;
    while let Some(part) = reading.next().await {
        read += part.unwrap().len();
    }
    assert_eq!(read, PARTS * PART);
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    println!("\n{most}");
}

#[tokio::test]
async fn a_gib_goes_through_64_megabytes() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return through(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut child = again("memory::a_gib_goes_through_64_megabytes");
    let answer = child.env(FOLDER, folder.path()).stderr(Stdio::inherit()).output().unwrap();
    let said = String::from_utf8(answer.stdout).unwrap();
    let line = said.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_else(|| panic!("{said}"));
    let kilobytes: u64 = line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kilobytes * 1024 < 64_000_000, "{line}");
}
