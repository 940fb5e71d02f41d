//! Examples for the most common commands. They are shown at the end of the help, and a test parses every one.

/// Returns the examples of a command, formatted for help.
pub(crate) fn of(typed: &str) -> Option<String> {
    let (_, lines) = EXAMPLES.iter().find(|(words, _)| *words == typed)?;
    let lines: String = lines.iter().map(|line| format!("\n  {line}")).collect();
    Some(format!("Examples:{lines}"))
}

/// Examples by command words.
pub(crate) const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "allocation create",
        &[
            "muster allocation create train-1 --gpus 2 --cpus 16 --memory-mb 131072 --wait",
            "muster allocation create train-1 --gpus 8 --wait-until 2h    # queue for two hours at most",
            "muster allocation create night --gpus 1 --expires-at 12h     # released automatically",
            "muster allocation create train-1 --gpus 8 --dry-run          # only show the plan",
        ],
    ),
    (
        "allocation list",
        &["muster allocation list --state active", "muster allocation list -l team=ml --all"],
    ),
    ("allocation timeline", &["muster allocation timeline train-1"]),
    (
        "allocation release",
        &[
            "muster allocation release train-1 --wait --timeout 10m",
            "muster allocation release train-1 --dry-run",
            "muster allocation release train-1 --cascade --wait           # with its members",
        ],
    ),
    ("allocation restart", &["muster allocation restart train-1 --wait"]),
    (
        "allocation resize",
        &[
            "muster allocation resize train-1 --cpus 8 --memory-mb 65536 --wait",
            "muster allocation resize train-1 --gpus 4 --restart --wait   # restarts its cells",
        ],
    ),
    (
        "allocation update",
        &[
            "muster allocation update train-1 --expires-at 3d",
            "muster allocation update train-1 --protected=false",
        ],
    ),
    (
        "allocation attest",
        &["muster allocation attest train-1 --statement 'gpu-17 was powered off and its disks were pulled'"],
    ),
    ("app list", &["muster app list", "muster app list --own    # published by the project itself"]),
    ("app get", &["muster app get notebook"]),
    (
        "app compatibility",
        &[
            "muster app compatibility notebook                        # where it fits, and why not elsewhere",
            "muster app compatibility notebook --components unit=8 --shape gpu_slice",
        ],
    ),
    ("app-version list", &["muster app-version list notebook"]),
    ("app-version get", &["muster app-version get notebook 1.2"]),
    (
        "app-version promote",
        &[
            "muster app-version promote notebook 1.3 --to canary --percent 20 --reason 'a fifth of the starts'",
            "muster app-version promote notebook 1.3 --to active --reason 'two days without a fault'",
        ],
    ),
    (
        "app-version demote",
        &["muster app-version demote notebook 1.1 --to retired --reason 'no longer used'"],
    ),
    (
        "entitlement grant",
        &[
            "muster entitlement grant notebook --dry-run                  # permissions its adapter requests",
            "muster entitlement grant notebook --consent member.get --consent cell.list",
        ],
    ),
    ("entitlement list", &["muster entitlement list", "muster entitlement list --published"]),
    ("adapter list", &["muster adapter list    # connected adapters, and when they last asked for work"]),
    (
        "adapter-step list",
        &["muster adapter-step list --instance lab", "muster adapter-step list --state leased"],
    ),
    (
        "instance create",
        &[
            "muster instance create notebook --wait    # manifest defaults; named notebook",
            "muster instance create notebook --name lab --set unit=3 --config rate=5 --wait",
            "muster instance create notebook --set unit=3 --dry-run       # only show the plan",
            "muster instance create notebook --set hub=1 --allocation hub=shared --allocation unit=shared",
            "muster instance create notebook --app-version 1.2 --config-file lab.json --shape baremetal",
        ],
    ),
    (
        "instance apply",
        &[
            "muster instance apply -f lab.json --wait       # create it, or update the instance with its name",
            "muster instance apply -f lab.json --set unit=4 --dry-run",
        ],
    ),
    ("instance list", &["muster instance list --state running", "muster instance list -l team=ml --all"]),
    ("instance get", &["muster instance get lab", "muster instance get lab -o json"]),
    (
        "instance scale",
        &[
            "muster instance scale lab --set unit=4 --wait",
            "muster instance scale lab --set unit=0 --reason 'over the weekend'",
        ],
    ),
    (
        "instance upgrade",
        &[
            "muster instance upgrade lab --wait             # to the active release",
            "muster instance upgrade lab --to 1.3 --config rate=8 --dry-run",
        ],
    ),
    ("instance rollback", &["muster instance rollback lab --reason 'it is slower' --wait"]),
    (
        "instance decommission",
        &[
            "muster instance decommission lab --wait",
            "muster instance decommission lab --force       # without waiting for work to move",
        ],
    ),
    ("instance endpoints", &["muster instance endpoints lab"]),
    (
        "member list",
        &["muster member list lab --component unit", "muster member list lab --state failed -o name"],
    ),
    ("member get", &["muster member get lab lab-unit-1", "muster member get lab/lab-unit-1"]),
    (
        "member add",
        &[
            "muster member add lab unit --count 2 --wait",
            "muster member add lab unit --allocation shared    # into an existing allocation",
            "muster member add lab unit --gpus 2               # into a new allocation with 2 GPUs",
        ],
    ),
    (
        "member drain",
        &[
            "muster member drain lab lab-unit-1 lab-unit-2 --reason 'maintenance' --wait",
            "muster member drain lab/lab-unit-1 --reason 'maintenance'",
            "muster member drain mem_01m7fjvyj8emk9p4cab3ddwt0a --reason 'maintenance'",
        ],
    ),
    ("member resume", &["muster member resume lab lab-unit-1 --wait"]),
    (
        "member remove",
        &[
            "muster member remove lab lab-unit-1 --wait",
            "muster member remove lab lab-unit-1 --force --reason 'it hangs'",
        ],
    ),
    ("member replace", &["muster member replace lab lab-unit-1 --reason 'node lost' --wait"]),
    ("member recover", &["muster member recover lab lab-unit-1 --wait"]),
    ("capacity get", &["muster capacity", "muster capacity --gpus 8", "muster capacity --shape baremetal"]),
    (
        "quota set",
        &["muster quota set --project acme.train --max-gpus 16", "muster quota set --unlimited gpus"],
    ),
    ("node enrol", &["muster node enrol --name gpu-17 --label rack=7"]),
    ("node list", &["muster node list --state unreachable", "muster node list -l rack=7"]),
    (
        "node approve",
        &[
            "muster node approve gpu-17          # shows the hardware, then asks",
            "muster node approve gpu-17 --yes",
        ],
    ),
    (
        "node drain",
        &[
            "muster node drain gpu-17 --reason 'firmware update' --wait",
            "muster node drain gpu-17 --deadline-seconds 600 --force   # then release the rest",
        ],
    ),
    (
        "node retire",
        &[
            "muster node retire gpu-17 --wait",
            "muster node retire gpu-17 --attest 'destroyed by fire on Tuesday, witnessed by Kim'",
        ],
    ),
    ("app lint", &["muster app lint manifest.json"]),
    (
        "app-version publish",
        &[
            "muster app-version publish notebook --file manifest.json --dry-run",
            "muster app-version publish notebook --file manifest.json",
        ],
    ),
    (
        "artifact push",
        &[
            "muster artifact push ./llama-3 models/llama-3:v1",
            "muster artifact push train.py data.csv --to train/inputs",
            "muster artifact push ./layout train/base:2.1      # an OCI layout",
            "muster artifact push image.tar train/base:2.1     # from podman save --format oci-archive -o image.tar",
        ],
    ),
    (
        "artifact pull",
        &[
            "muster artifact pull models/llama-3:v1 ./llama-3",
            "muster artifact pull train/base:2.1 ./layout      # then: skopeo copy oci:./layout:2.1 docker-archive:base.tar",
        ],
    ),
    (
        "artifact sign",
        &[
            "muster artifact sign train/base:2.1 --key release.pem",
            "muster artifact sign train/base:2.1 --key release.pem --form both",
        ],
    ),
    (
        "artifact smoke",
        &[
            "muster artifact smoke train/base:2.1 --allocation a1",
            "muster artifact smoke train/base:2.1 --allocation a1 --promote -- python3 -c 'import torch'",
        ],
    ),
    (
        "key generate",
        &["muster key generate release.pem      # then: muster key create release --file release.pem.pub"],
    ),
    (
        "artifact list",
        &["muster artifact list --state active", "muster artifact list --repository train/base --all"],
    ),
    ("artifact get", &["muster artifact get train/base:2.1", "muster artifact get train/base:2.1 -o json"]),
    ("artifact verify", &["muster artifact verify train/base:2.1    # after adding a key or a signature"]),
    (
        "artifact promote",
        &[
            "muster artifact promote train/base:2.1 --to staged --reason 'the tests passed'",
            "muster artifact promote train/base:2.1 --to canary --percent 20 --reason 'a fifth of the starts'",
            "muster artifact promote train/base:2.1 --to active --reason 'two days without a fault'",
        ],
    ),
    (
        "artifact demote",
        &[
            "muster artifact demote train/base:2.1 --to staged --reason 'the canary died'    # from canary",
            "muster artifact demote train/base:2.0 --to retired --reason 'no longer used'",
        ],
    ),
    ("artifact references", &["muster artifact references train/base:2.1"]),
    (
        "artifact publish",
        &[
            "muster artifact publish --repository train/base --reference 2.1 --line nightly",
            "muster artifact publish --repository mirror/base --reference sha256:9a6d0ae1e2f7c1e2f5d4f1d57a0e1a4b7d8f0c3b2a1908f7e6d5c4b3a2918070 --external '{\"registry\": \"registry.example\", \"repository\": \"library/base\", \"secret\": \"hub\"}'",
        ],
    ),
    ("repository tags", &["muster repository tags train/base"]),
    ("key create", &["muster key create release --file release.pem.pub"]),
    ("key revoke", &["muster key revoke release --reason 'the laptop was stolen'"]),
    (
        "trust-policy set",
        &[
            "muster trust-policy set --unsigned-up-to draft --smoke-to-stage",
            "muster trust-policy set --grace-hours 72",
        ],
    ),
    (
        "secret create",
        &[
            "muster secret create hub-token                          # prompts, without echo",
            "muster secret create tls-key --from-file key.der",
            "muster secret create db-password --from-file -          # from standard input",
        ],
    ),
    (
        "secret rotate",
        &["muster secret rotate hub-token", "muster secret rotate tls-key --from-file new.der"],
    ),
    (
        "operation list",
        &["muster operation list --state blocked", "muster operation list --state blocked --platform"],
    ),
    (
        "operation watch",
        &[
            "muster operation watch op_01m7fjvyj8emk9p4cab3ddwt0a",
            "muster operation watch op_01m7fjvyj8emk9p4cab3ddwt0a --timeout 10m -o json",
        ],
    ),
    (
        "operation resolve",
        &[
            "muster operation resolve op_01m7fjvyj8emk9p4cab3ddwt0a --action retry",
            "muster operation resolve op_01m7fjvyj8emk9p4cab3ddwt0a --action abandon --statement 'the board was pulled'",
        ],
    ),
];
