//! System calls that a cell may make: an allow list.
//!
//! Excluded on purpose, because they reach state that the kernel shares between cells or have enabled container escapes:
//! mounting (`mount`, `fsopen`, `move_mount`, `open_tree`, `pivot_root`, …), new namespaces (`unshare`, `setns`, `clone`
//! with such flags), keyrings, `bpf`, `perf_event_open`, `userfaultfd`, `io_uring_*`, modules, `kexec_*`, clocks, swap,
//! quotas, `open_by_handle_at`, `ptrace`'s privileged relatives (`kcmp`, `process_madvise`), NUMA placement of other
//! processes, `modify_ldt` (segments of 16-bit programs), `memfd_secret` (memory that no check or dump of the node could
//! read).
//! `process_vm_readv` and `process_vm_writev` are allowed: they reach no process that `ptrace` does not, which is allowed
//! inside the cell, and MPI libraries copy between ranks with them and fail without them.
//! A refused call returns "not permitted"; `clone3` returns "no such call", because its flags cannot be inspected and
//! libraries then fall back to `clone`.

use serde_json::{Value, json};

/// Calls allowed with any arguments.
const ALLOWED: &str = include_str!("seccomp.txt");

/// Flags of clone(2) that create a namespace.
const NEW_NAMESPACES: u64 = 0x7e02_0000;

/// Socket families: local, IPv4, IPv6 and netlink. Virtual machine sockets and the kernel's cryptography are excluded.
const FAMILIES: [u64; 4] = [1, 2, 10, 16];

/// Personalities: the default, the 32-bit one, each with and without a fixed layout, and the query.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

const NO_SUCH_CALL: u32 = 38;
const NOT_PERMITTED: u32 = 1;

/// Returns the profile in the OCI runtime's format.
pub(crate) fn profile() -> Value {
    let names: Vec<&str> = allowed().collect();
    let mut rules = vec![
        json!({ "names": names, "action": "SCMP_ACT_ALLOW" }),
        json!({
            "names": ["clone"], "action": "SCMP_ACT_ALLOW",
            "args": [{ "index": 0, "value": NEW_NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }],
        }),
        json!({ "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": NO_SUCH_CALL }),
    ];
    let one_of = |name: &'static str, values: &[u64]| {
        values
            .iter()
            .map(|value| {
                let argument = json!({ "index": 0, "value": value, "op": "SCMP_CMP_EQ" });
                json!({ "names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument] })
            })
            .collect::<Vec<_>>()
    };
    rules.extend(one_of("socket", &FAMILIES));
    rules.extend(one_of("personality", &PERSONALITIES));
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": NOT_PERMITTED,
        "architectures": architectures(),
        "syscalls": rules,
    })
}

fn allowed() -> impl Iterator<Item = &'static str> {
    ALLOWED.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace)
}

/// Returns the machine's own architecture without the 32-bit one, where a single call could request any socket family.
fn architectures() -> Value {
    match std::env::consts::ARCH {
        "aarch64" => json!(["SCMP_ARCH_AARCH64"]),
        _ => json!(["SCMP_ARCH_X86_64"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_no_call_twice_and_none_of_those_that_are_left_out() {
        let mut names: Vec<&str> = allowed().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for never in [
            "mount",
            "umount2",
            "unshare",
            "setns",
            "clone",
            "clone3",
            "keyctl",
            "add_key",
            "request_key",
            "bpf",
            "userfaultfd",
            "kexec_load",
            "init_module",
            "finit_module",
            "open_by_handle_at",
            "perf_event_open",
            "io_uring_setup",
            "pivot_root",
            "move_mount",
            "open_tree",
            "fsopen",
            "reboot",
            "swapon",
            "socket",
            "modify_ldt",
            "memfd_secret",
        ] {
            assert!(!names.contains(&never), "{never}");
        }
    }
}
