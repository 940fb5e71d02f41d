//! Wiping the memory of a device, with a fake driver. The example `device_memory` covers a real driver, on a machine that
//! has one.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const UUID: &str = "GPU-0b0b0b0b-0b0b-0b0b-0b0b-0b0b0b0b0b0b";
const CANARY: u32 = 0x7e57_c0de;
const VERB: &str = "MUSTER_STORAGE_TEST_VERB";

/// The tests below also start this program again with a verb, to act as another process.
#[test]
fn a_device_that_does_not_exist_is_neither_searched_nor_wiped() {
    let Ok(verb) = std::env::var(VERB) else {
        // With a driver or without one.
        assert!(muster_disk::search(UUID, CANARY).is_err() && muster_disk::wipe(UUID).is_err());
        return;
    };
    let (verb, uuid) = verb.split_once(' ').unwrap();
    let said = match verb {
        "plant" => muster_disk::plant(uuid, CANARY).map(|bytes| format!("{bytes}")),
        "search" => {
            muster_disk::search(uuid, CANARY).map(|found| format!("{} of {}", found.bytes, found.searched))
        }
        "wipe" => muster_disk::wipe(uuid).map(|wiped| format!("{wiped:?}")),
        other => panic!("{other:?} is no verb"),
    };
    println!("said: {}", said.unwrap_or_else(|unproven| unproven.to_string()));
}

/// A machine with a driver and a device.
struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device/fake_driver.rs");
        let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let mut command = Command::new(compiler);
        command.args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "--crate-name",
            "fake",
            "-A",
            "warnings",
        ]);
        command.arg("-o").arg(folder.path().join("libcuda.so.1")).arg(source);
        assert!(command.status().unwrap().success(), "the driver for the tests could not be built");
        File::create(folder.path().join("device")).unwrap().set_len(50 << 20).unwrap();
        Self { folder }
    }

    fn device(&self) -> PathBuf {
        self.folder.path().join("device")
    }

    /// Returns the output of another process that runs this verb.
    fn says(&self, verb: &str, fault: &str) -> String {
        self.says_of(verb, UUID, fault)
    }

    fn says_of(&self, verb: &str, uuid: &str, fault: &str) -> String {
        run(
            verb,
            uuid,
            &[
                ("LD_LIBRARY_PATH", self.folder.path()),
                ("FAKE_DEVICE", &self.device()),
                ("FAKE_FAULT", Path::new(fault)),
            ],
        )
    }
}

fn run(verb: &str, uuid: &str, environment: &[(&str, &Path)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "a_device_that_does_not_exist_is_neither_searched_nor_wiped", "--nocapture"]);
    command.env(VERB, format!("{verb} {uuid}")).envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = text.lines().find_map(|line| line.split_once("said: ")).map(|(_, said)| said.to_owned());
    said.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_canary_is_found_until_the_memory_is_wiped() {
    let machine = Machine::new();
    let all = 50_u64 << 20;
    assert_eq!(machine.says("search", ""), format!("0 of {all}"));
    assert_eq!(machine.says("plant", ""), all.to_string());
    assert_eq!(machine.says("search", ""), format!("{all} of {all}"), "the next tenant can read it");
    let wiped = machine.says("wipe", "");
    let total = all + (1 << 20);
    assert_eq!(wiped, format!("Wiped {{ bytes: {all}, of_total: {total}, left_unreached: {} }}", 1 << 20));
    assert_eq!(machine.says("search", ""), format!("0 of {all}"));
    assert!(fs::read(machine.device()).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_wipe_that_does_not_reach_everything_is_unproven() {
    let machine = Machine::new();
    machine.says("plant", "");
    let said = machine.says("wipe", "skips");
    assert!(said.contains("unproven") && said.contains("does not read as zero"), "{said}");
    assert_eq!(machine.says("search", ""), format!("4096 of {}", 50 << 20), "and what it left is found");
    let said = machine.says("wipe", "ignores");
    assert!(said.contains("unproven") && said.contains("does not read back"), "{said}");
    let said = machine.says("wipe", "held");
    assert!(said.contains("unproven") && said.contains("another process holds memory"), "{said}");
}

#[test]
fn a_device_that_cannot_be_reached_is_unproven() {
    let machine = Machine::new();
    let said = machine.says_of("wipe", "GPU-00000000-0000-0000-0000-000000000000", "");
    assert!(said.contains("unproven") && said.contains("not among them"), "{said}");
    let said = machine.says_of("wipe", "GPU-0a0a0a0a-0a0a-0a0a-0a0a-0a0a0a0a0a0a", "");
    assert!(said.contains("unproven") && said.contains("46 (CUDA_ERROR_FAKE)"), "{said}");
    let nothing = tempfile::tempdir().unwrap();
    fs::write(nothing.path().join("libcuda.so.1"), "no library").unwrap();
    let said = run("wipe", UUID, &[("LD_LIBRARY_PATH", nothing.path())]);
    assert!(said.contains("unproven") && said.contains("there is no driver"), "{said}");
}
