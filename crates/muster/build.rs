//! How the release is linked, where that decides how much memory an idle agent holds.

use std::env::var;
use std::path::Path;
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    if is("TARGET", TARGET) && is("HOST", TARGET) && is("PROFILE", "release") && has_lld() {
        // A megabyte of relocations becomes a dozen kilobytes, and reading them at the start is memory that every process of
        // ours would keep. glibc takes them from 2.36 on, and only from a linker that says so in the file; mold 1.10, which
        // .cargo/config.toml asks for because it is quick, does not, and its program is refused. The one that comes with Rust
        // does. What stands here comes last on the line, so it is the one that is used.
        println!("cargo:rustc-link-arg-bins=-fuse-ld=lld");
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Whether the compiler brings its linker along; those of some distributions do not, and then nothing changes.
fn has_lld() -> bool {
    let asked = Command::new(var("RUSTC").unwrap_or_default()).args(["--print", "sysroot"]).output();
    asked.is_ok_and(|answer| {
        let sysroot = String::from_utf8_lossy(&answer.stdout);
        Path::new(sysroot.trim()).join("lib/rustlib").join(TARGET).join("bin/gcc-ld/ld.lld").exists()
    })
}
