//! Which system calls a cell may make: those in the list, and no others.
//!
//! Left out on purpose, because they reach what the kernel shares between cells or have been the way out of containers before:
//! mounting (`mount`, `fsopen`, `move_mount`, `open_tree`, `pivot_root`, …), new namespaces (`unshare`, `setns`, `clone` with
//! such flags), keyrings, `bpf`, `perf_event_open`, `userfaultfd`, `io_uring_*`, modules, `kexec_*`, clocks, swap, quotas,
//! `open_by_handle_at`, `ptrace`'s privileged cousins (`kcmp`, `process_madvise`), NUMA placement of other processes,
//! `modify_ldt` (old segments of 16 bit programs), `memfd_secret` (memory that no check or dump of the node could read).
//! `process_vm_readv` and `process_vm_writev` stay: they reach no process that `ptrace` does not, which is allowed inside the
//! cell, and MPI libraries copy between ranks with them and fail loudly where they are denied.
//! A refused call is answered with "not permitted"; `clone3` with "no such call", because its flags cannot be looked at and
//! libraries then use `clone`.

use serde_json::{Value, json};

/// Calls that are allowed whatever their arguments.
const ALLOWED: &str = include_str!("seccomp.txt");

/// The flags of clone(2) that ask for a new namespace.
const NEW_NAMESPACES: u64 = 0x7e02_0000;

/// Families of sockets: local, IPv4, IPv6 and netlink. Virtual machine sockets and the kernel's cryptography are not among them.
const FAMILIES: [u64; 4] = [1, 2, 10, 16];

/// Personalities: the usual one, the 32 bit one, each with and without a fixed layout, and the question which it is.
const PERSONALITIES: [u64; 5] = [0x0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];

const NO_SUCH_CALL: u32 = 38;
const NOT_PERMITTED: u32 = 1;

/// The profile, as an OCI runtime takes it.
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

/// The machine's own and no 32 bit one: there a single call could ask for any family of sockets.
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
