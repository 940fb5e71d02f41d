//! A server that is killed at any point, and the state that the next one finds.
//!
//! A kill reveals work that a process leaves half done. The effects of a power failure cannot be tested here: they depend on
//! the order of syncs, which the module header documents and `strace` confirms.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use muster_ids::Env;
use muster_registry::blobs::POINTS;
use muster_registry::{Blobs, UploadError};
use uuid::Uuid;

use crate::shelf::{MOST, body, digest, files_in, noise, nothing, parts};

const FOLDER: &str = "MUSTER_REGISTRY_TEST_FOLDER";
const POINT: &str = "MUSTER_REGISTRY_TEST_POINT";
const OWNER: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001);
const UPLOAD: Uuid = Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0002);

/// Runs this same test again in a child process that can be killed.
pub(crate) fn again(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// Waits until the child prints this word on a line of its own.
fn wait_for(child: &mut Child, word: &str) {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let found = lines.map_while(Result::ok).any(|line| line.trim() == word);
    assert!(found, "the child ended before it said {word}");
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Asserts that every finished file matches its name, and returns their number.
async fn nothing_is_spoiled(blobs: &Blobs) -> usize {
    let files = blobs.files(None, 10_000).await.unwrap();
    for file in &files {
        let damage = blobs.check_content(&file.name, &file.digest, file.size).await.unwrap();
        assert_eq!(damage, None, "{}", file.name);
    }
    files.len()
}

fn env() -> Env {
    Env::system()
}

/// The child: uploads, and reports and stops when it reaches the point.
async fn upload_until(folder: &Path, point: String) {
    let reach = move |reached: &'static str| {
        if reached == point {
            println!("\nreached");
            loop {
                std::thread::park();
            }
        }
    };
    let blobs = Blobs::open_reaching(folder, env(), Arc::new(reach)).await.unwrap();
    let content = noise(1_300_000);
    blobs.upload_start(OWNER, UPLOAD).await.unwrap();
    let first = parts(content[..900_000].chunks(10_000));
    blobs.upload_append(OWNER, UPLOAD, Some(0), MOST, first).await.unwrap();
    let rest = body(&content[900_000..]);
    blobs.upload_finish(OWNER, UPLOAD, &digest(&content), Some(900_000), MOST, rest).await.unwrap();
    panic!("the point was not reached");
}

#[tokio::test]
async fn a_server_killed_at_any_point_leaves_nothing_spoiled() {
    if let (Some(folder), Ok(point)) = (std::env::var_os(FOLDER), std::env::var(POINT)) {
        return upload_until(Path::new(&folder), point).await;
    }
    for point in POINTS {
        let folder = tempfile::tempdir().unwrap();
        let mut command = again("crash::a_server_killed_at_any_point_leaves_nothing_spoiled");
        let mut child = command.env(FOLDER, folder.path()).env(POINT, point).spawn().unwrap();
        wait_for(&mut child, "reached");
        kill(child);

        let blobs = Blobs::open(folder.path(), env()).await.unwrap();
        let content = noise(1_300_000);
        let finished = nothing_is_spoiled(&blobs).await;
        let swept = blobs.uploads_older_than(Duration::ZERO, env().now()).await.unwrap();
        let length = blobs.upload_length(OWNER, UPLOAD).await.unwrap();
        if point == "blob:renamed" {
            assert_eq!((finished, length, swept.len()), (1, None, 0), "{point}");
        } else {
            assert_eq!((finished, swept), (0, vec![(OWNER, UPLOAD)]), "{point}");
            let length = usize::try_from(length.unwrap()).unwrap();
            let expected = match point {
                "blob:opened" => 0,
                "blob:appended" => 512 << 10,
                _ => content.len(),
            };
            assert_eq!(length, expected, "{point}");
            let rest = body(&content[length..]);
            let finish = blobs.upload_finish(OWNER, UPLOAD, &digest(&content), None, MOST, rest).await;
            assert_eq!(finish.unwrap().size, 1_300_000, "{point}");
            assert_eq!(nothing_is_spoiled(&blobs).await, 1, "{point}");
        }
        assert_eq!(files_in(&folder.path().join("uploads")), Vec::<std::path::PathBuf>::new(), "{point}");
    }
}

/// The child: pushes one blob after another until it is killed.
async fn push_for_ever(folder: &Path) {
    let blobs = Blobs::open(folder, env()).await.unwrap();
    println!("\npushing");
    for length in (1..).map(|number: usize| number * 7919 % 1_000_000) {
        let content = noise(length);
        blobs.put(&digest(&content), MOST, parts(content.chunks(5_000))).await.unwrap();
        let upload = env().uuid();
        blobs.upload_start(OWNER, upload).await.unwrap();
        blobs.upload_append(OWNER, upload, None, MOST, body(&content)).await.unwrap();
        blobs.upload_finish(OWNER, upload, &digest(&content), None, MOST, nothing()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_killed_at_any_moment_leave_nothing_spoiled() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return push_for_ever(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    for round in 0..12_u64 {
        let mut command = again("crash::servers_killed_at_any_moment_leave_nothing_spoiled");
        let mut child = command.env(FOLDER, folder.path()).spawn().unwrap();
        wait_for(&mut child, "pushing");
        // Not a wait for an event, but an arbitrary moment.
        tokio::time::sleep(Duration::from_micros(round * 3_331)).await;
        kill(child);
    }
    let blobs = Blobs::open(folder.path(), env()).await.unwrap();
    assert!(nothing_is_spoiled(&blobs).await > 0);
    for (owner, upload) in blobs.uploads_older_than(Duration::ZERO, env().now()).await.unwrap() {
        assert!(blobs.upload_cancel(owner, upload).await.unwrap());
    }
    assert_eq!(files_in(&folder.path().join("uploads")), Vec::<std::path::PathBuf>::new());
}

/// The child: fills the small storage, frees some of it and continues.
async fn fill(folder: &Path) {
    let blobs = Blobs::open(folder.join("blobs"), env()).await.unwrap();
    let content = noise(3 << 20);
    std::fs::write(folder.join("ballast"), noise(2 << 20)).unwrap();
    blobs.upload_start(OWNER, UPLOAD).await.unwrap();
    let append = blobs.upload_append(OWNER, UPLOAD, None, MOST, parts(content.chunks(70_000))).await;
    assert!(matches!(append, Err(UploadError::Full)), "{append:?}");
    let put = blobs.put(&digest(&content), MOST, body(&content)).await;
    assert!(matches!(put, Err(UploadError::Full)), "{put:?}");
    let length = blobs.upload_length(OWNER, UPLOAD).await.unwrap().unwrap();
    assert!(length > 1 << 20, "{length}");
    let finish = blobs.upload_finish(OWNER, UPLOAD, &digest(&content), None, MOST, body(b"more")).await;
    assert!(matches!(finish, Err(UploadError::Full)), "{finish:?}");
    std::fs::remove_file(folder.join("ballast")).unwrap();
    let rest = body(&content[usize::try_from(length).unwrap()..]);
    let finish = blobs.upload_finish(OWNER, UPLOAD, &digest(&content), Some(length), MOST, rest).await;
    assert_eq!(finish.unwrap().size, content.len() as u64);
    assert_eq!(nothing_is_spoiled(&blobs).await, 1);
    println!("\nfilled");
}

#[tokio::test]
async fn a_full_storage_keeps_what_arrived() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return fill(Path::new(&folder)).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let child = again("crash::a_full_storage_keeps_what_arrived");
    // A file system of four MiB that only the child can access.
    let script = r#"mount -t tmpfs -o size=4m none "$0" && exec "$@""#;
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(folder.path());
    command.arg(child.get_program()).args(child.get_args()).env(FOLDER, folder.path());
    let answer = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&answer.stdout);
    assert!(said.contains("\nfilled\n"), "{said}\n{}", String::from_utf8_lossy(&answer.stderr));
}
