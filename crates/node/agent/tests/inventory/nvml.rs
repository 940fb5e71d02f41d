//! GPUs as the vendor's library shows them, with a stand-in for that library, so that no GPU is needed.

use std::path::Path;
use std::process::Command;

use muster_wire::inventory::Inventory;

/// Inventory that another process reads of this machine, with the stand-in on its library path.
fn read_with(fault: &str) -> Inventory {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/inventory/fake_nvml.rs");
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition", "2024", "--crate-type", "cdylib", "--crate-name", "fake", "-A", "warnings"]);
    compiler.arg("-o").arg(folder.path().join("libnvidia-ml.so.1")).arg(source);
    assert!(compiler.status().unwrap().success(), "the library for the tests could not be built");
    let mut reader = Command::new(std::env::current_exe().unwrap());
    reader.args(["--exact", "this_very_machine_says_the_same_twice", "--nocapture"]);
    reader.env("LD_LIBRARY_PATH", folder.path()).env("FAKE_NVML", fault);
    let output = reader.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let json = text.lines().find_map(|line| line.split_once("inventory: ")).expect(&text).1;
    serde_json::from_str(json).unwrap()
}

#[test]
fn gpus_their_links_and_modes_are_those_that_the_library_shows() {
    let found = read_with("");
    let gpus: Vec<_> = found
        .gpus
        .iter()
        .map(|gpu| (gpu.ordinal, gpu.pci.as_deref().unwrap(), gpu.island, gpu.nvlinks, gpu.mig))
        .collect();
    let expected = [
        (0, "0000:a0:00.0", 0, 17, false),
        (1, "0000:a1:00.0", 0, 17, false),
        (2, "0000:a2:00.0", 1, 17, true),
        (3, "0000:a3:00.0", 1, 17, false),
        (4, "0000:a4:00.0", 2, 0, false),
    ];
    assert_eq!(gpus, expected);
    for (number, gpu) in found.gpus.iter().enumerate() {
        assert_eq!(gpu.uuid, format!("GPU-0000000{number}-1111-2222-3333-444444444444"));
        assert_eq!((gpu.model.as_str(), gpu.memory_mb), ("NVIDIA H200", 143_771));
        assert_eq!(gpu.driver.as_deref(), Some("580.65.06"));
    }
    assert!(!found.simulated);
    let unread: Vec<&String> = found.notes.iter().filter(|note| note.starts_with("GPU 5 ")).collect();
    assert_eq!(unread.len(), 1, "{:?}", found.notes);
    assert!(unread[0].contains("could not be read"), "{unread:?}");
}

#[test]
fn a_library_without_a_driver_or_a_count_is_noted_and_shows_no_gpu() {
    for (fault, note) in [("init", "NVML is not there: "), ("count", "NVML does not count the GPUs: ")] {
        let found = read_with(fault);
        assert!(found.gpus.is_empty());
        assert!(found.notes.iter().any(|said| said.starts_with(note)), "{fault}: {:?}", found.notes);
    }
}
