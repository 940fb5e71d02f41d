//! Concurrent callers, and callers that die.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use muster_image::{Digest, Image, Images, Limits, Source};

use crate::canary::quick_folder;
use crate::layout::{Layout, Tar};

const FOLDER: &str = "MUSTER_IMAGE_TEST_FOLDER";
const DIGEST: &str = "MUSTER_IMAGE_TEST_DIGEST";

/// An image with enough files for a collision or a crash while it is unpacked.
fn large(folder: &Path, files: usize) -> Digest {
    let tar =
        (0..files).fold(Tar::default(), |tar, file| tar.file(&format!("{}/{file}", file % 100), b"content"));
    Layout::new(&folder.join("layout")).image(&[tar])
}

fn ensure(folder: &Path, digest: &Digest) -> Image {
    let images = Images::open(folder.join("images")).unwrap();
    images.ensure(&Source::Layout(folder.join("layout")), digest, &Limits::default()).unwrap()
}

/// Not a test of its own: the tests below start this program again with a folder, to act as another process.
#[test]
fn another_process_asks_for_an_image() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let digest = std::env::var(DIGEST).unwrap().parse().unwrap();
    println!("fresh={}", ensure(&folder, &digest).fresh);
}

/// A child that ends with the test in any case.
struct Process(Option<Child>);

impl Process {
    fn start(folder: &Path, digest: &Digest) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "together::another_process_asks_for_an_image", "--nocapture"]);
        command.env(FOLDER, folder).env(DIGEST, digest.to_string());
        Self(Some(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()))
    }

    fn unpacked_it(mut self) -> bool {
        let output = self.0.take().unwrap().wait_with_output().unwrap();
        assert!(output.status.success());
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains("fresh="), "{said}");
        said.contains("fresh=true")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn of_many_threads_one_unpacks_and_the_others_find_it() {
    let folder = quick_folder();
    let digest = large(folder.path(), 500);
    let all_here = Barrier::new(8);
    let images: Vec<Image> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    all_here.wait();
                    ensure(folder.path(), &digest)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(images.iter().filter(|image| image.fresh).count(), 1);
    let inodes = images.iter().map(|image| fs::metadata(&image.rootfs).unwrap().ino());
    assert_eq!(inodes.collect::<std::collections::BTreeSet<_>>().len(), 1);
}

#[test]
fn of_several_processes_one_unpacks_and_the_others_find_it() {
    let folder = quick_folder();
    let digest = large(folder.path(), 3000);
    let processes: Vec<_> = (0..3).map(|_| Process::start(folder.path(), &digest)).collect();
    let fresh = processes.into_iter().map(Process::unpacked_it).filter(|fresh| *fresh).count();
    assert_eq!(fresh, 1);
}

#[test]
fn partial_image_of_a_killed_process_is_removed_and_rebuilt() {
    let folder = quick_folder();
    let digest = large(folder.path(), 20_000);
    let partial = folder.path().join("images/partial");
    let mine = partial.join(format!("sha256-{}", digest.hex()));
    let mut process = Process::start(folder.path(), &digest);
    let began = Instant::now();
    // Not before part of it is there, and long before all of it is.
    while !mine.join("rootfs/10").exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "it never began");
        std::thread::sleep(Duration::from_millis(1));
    }
    let images = Images::open(folder.path().join("images")).unwrap();
    assert!(mine.join("rootfs").exists(), "opening takes nothing away from somebody who lives");
    let child = process.0.as_mut().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(images.list().unwrap(), [], "it died in the middle");
    assert!(mine.exists());

    let images = Images::open(folder.path().join("images")).unwrap();
    assert_eq!(fs::read_dir(&partial).unwrap().count(), 0);
    assert!(ensure(folder.path(), &digest).fresh);
    assert_eq!(images.verify_tree(&digest).unwrap(), Vec::<String>::new());
}
