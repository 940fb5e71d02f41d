//! Linker options of the release build, which affect the memory of an idle agent.

use std::env::var;
use std::path::Path;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    if is("TARGET", TARGET) && is("HOST", TARGET) && is("PROFILE", "release") && has_lld() {
        // This packs a megabyte of relocations into a dozen kilobytes; reading them at start is memory that every process
        // would keep. glibc supports it from 2.36 on, and only if the linker marks the file accordingly; mold 1.10,
        // selected in .cargo/config.toml for its speed, does not, and its program is refused. The linker that comes with
        // Rust does. These arguments come last on the command line, so this linker is used.
        println!("cargo:rustc-link-arg-bins=-fuse-ld=lld");
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Reports whether the compiler includes its linker; those of some distributions do not, and then nothing changes.
fn has_lld() -> bool {
    let asked = Command::new(var("RUSTC").unwrap_or_default()).args(["--print", "sysroot"]).output();
    asked.is_ok_and(|answer| {
        let sysroot = String::from_utf8_lossy(&answer.stdout);
        Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld").exists()
    })
}
