"""From a push to a running cell: signed, promoted, pulled by digest with a scoped secret, given secrets in memory. And whatever was
changed, by a byte or by a key, is refused with its reason. Afterwards no secret stands anywhere it should not."""

import json
import os
import sqlite3
import subprocess

import canaries
import image
from world import eventually, web

MADE_OF = "/run/muster/secrets"


def run(world):
    # As root has it on hardened machines: cells must not inherit it.
    world.up(1, "--registry-garbage-every-seconds", "3600", umask=0o077)
    project = world.project()
    slug = json.loads(world.said("-o", "json", "tenant", "get", project.project["tenant_id"]))["slug"]
    digest = pushed(world, project, f"{slug}.work/web", "v1")
    secrets = canaries.Canaries()
    signed_and_promoted(world, project, digest)
    project.allocate("a")
    spec = with_secrets(project, secrets, digest)
    project.cell("web", "a", spec)
    what_the_cell_was_given(project, secrets)
    references(project, digest)
    a_secret_in_use_stays(project)
    a_byte_on_the_nodes_disk(world, project, digest)
    a_byte_on_the_registrys_disk(world, project, slug)
    a_revoked_key(project)
    nothing_leaked(world, project, secrets)
    for name in ("a", "b"):
        project.release(name)
    world.audit("n1")


def pushed(world, project, path, tag, images=None):
    """Pushes with skopeo, like any user; returns the registry's digest."""
    target = f"docker://127.0.0.1:{world.server.port}/{path}:{tag}"
    # The token is passed in a file: arguments are world-readable in /proc.
    auth = world.folder / "auth.json"
    login = subprocess.run(
        ["skopeo", "login", "--tls-verify=false", "--authfile", auth, "--username", "any", "--password-stdin",
         f"127.0.0.1:{world.server.port}"],
        input=project.tokens["tenant_admin"], capture_output=True, text=True)
    assert login.returncode == 0, login
    copied = subprocess.run(
        ["skopeo", "copy", "--quiet", "--dest-tls-verify=false", "--authfile", auth, f"oci:{images or world.images}", target],
        capture_output=True, text=True)
    assert copied.returncode == 0, copied
    auth.unlink()
    repository = path.split("/", 1)[1]
    artifact = json.loads(project.said("-o", "json", "artifact", "get", f"{repository}:{tag}"))
    assert artifact["state"] == "draft", artifact
    return artifact["digest"]


def signed_and_promoted(world, project, digest):
    name = f"web@{digest}"
    key = world.folder / "signing.pem"
    project.said("key", "generate", str(key))
    refused = project.muster("artifact", "promote", name, "--to", "canary", "--reason", "too early")
    assert refused.returncode != 0 and "draft" in refused.stderr, refused
    project.said("artifact", "promote", name, "--to", "staged", "--reason", "it is tried")
    refused = project.muster("artifact", "promote", name, "--to", "canary", "--reason", "it is not signed")
    assert refused.returncode != 0 and "it has no signature" in refused.stderr, refused
    project.said("key", "create", "builds", "--file", f"{key}.pub")
    project.said("artifact", "sign", name, "--key", str(key))
    for state in ("canary", "active"):
        project.said("artifact", "promote", name, "--to", state, "--reason", "it is good")
    artifact = json.loads(project.said("-o", "json", "artifact", "get", name))
    assert (artifact["state"], artifact["verdict"]["trust"]) == ("active", "trusted"), artifact


def with_secrets(project, secrets, digest):
    """A cell with a secret of each kind, and one service that only works with it."""
    project.said("secret", "create", "password", "--from-file", "-", input=secrets.make("a project's secret, first content"))
    project.said("secret", "rotate", "password", "--from-file", "-", input=secrets.make("a project's secret, rotated"))
    issued = bootstrap(project)
    secrets.add("what members share", issued["value"])
    spec = web("web")
    # Users of a cell that are not root read their secrets too.
    reads = f"cat {MADE_OF}/password >/dev/null && echo password read; exec sleep 1000000"
    spec["services"].append({"name": "reader", "command": ["/bin/sh", "-c", reads], "uid": 65534, "gid": 65534})
    return {
        "root": {"image": digest},
        **spec,
        "secrets": [
            {"secret": "password", "file": "password", "uid": 65534, "gid": 65534},
            {"secret": issued["id"], "file": "cluster.key"},
        ],
    }


def bootstrap(project):
    """Only automation is given such material."""
    refused = project.muster("runtime-secret", "issue", "--purpose", "cluster_bootstrap", "--name", "join")
    assert refused.returncode != 0 and "runtime_secret.issue" in refused.stderr, refused
    server, path = project.world.server, f"/v1/projects/{project.project['id']}"
    admin = project.tokens["tenant_admin"]
    account = server.call(
        "POST", f"{path}/service-accounts",
        {"name": "adapter", "permissions": ["runtime_secret.issue", "runtime_secret.cluster_bootstrap"]}, token=admin)
    token = server.call("POST", "/v1/tokens", {"name": "t", "service_account": account["id"]}, token=admin)["secret"]
    return server.call("POST", f"{path}/runtime-secrets", {"purpose": "cluster_bootstrap", "name": "join"}, token=token)


def what_the_cell_was_given(project, secrets):
    got = project.exec("web", "cat", f"{MADE_OF}/password")
    assert got.stdout == secrets.text["a project's secret, rotated"], got
    stat = project.exec("web", "stat", "-c", "%a %u %g", f"{MADE_OF}/password", f"{MADE_OF}/cluster.key").stdout.split("\n")
    assert stat[:2] == ["400 65534 65534", "400 0 0"], stat
    eventually(lambda: is_in(project.said("logs", "web", "--service", "reader"), "password read"))
    mounted = project.exec("web", "grep", MADE_OF, "/proc/mounts").stdout
    assert " tmpfs " in mounted and "ro," in mounted, mounted
    other = project.exec("web", "busybox", "setuidgid", "65534", "cat", f"{MADE_OF}/cluster.key")
    if "not found" not in other.stderr:
        assert other.returncode != 0, other


def references(project, digest):
    seen = json.loads(project.said("-o", "json", "artifact", "references", f"web@{digest}"))
    assert seen["tags"] == ["v1"] and seen["signatures"] and [cell["name"] for cell in seen["cells"]] == ["web"], seen
    assert [change["after"] for change in seen["changes"]] == ["draft", "staged", "canary", "active"], seen
    shown = project.said("artifact", "references", f"web@{digest}")
    assert "web" in shown and "active" in shown, shown
    # A running cell prevents its retirement.
    project.said("artifact", "demote", f"web@{digest}", "--to", "deprecated", "--reason", "to see that it is held")
    refused = project.muster("artifact", "demote", f"web@{digest}", "--to", "retired", "--reason", "too early")
    assert refused.returncode != 0, refused


def is_in(text, part):
    assert part in text, text


def a_secret_in_use_stays(project):
    refused = project.muster("secret", "delete", "password")
    assert refused.returncode != 0 and "web" in refused.stderr, refused


def fails(project, name, allocation, spec, *words):
    """A cell that must fail; returns its reason."""
    made = project.muster(
        "cell", "create", name, "--allocation", allocation, "--spec", json.dumps(spec), "--wait", "--timeout", "60s")
    assert made.returncode != 0, made
    for word in words:
        assert word in made.stdout + made.stderr, made
    cells = json.loads(project.said("-o", "json", "cell", "list"))["items"]
    return next((cell.get("reason") for cell in cells if cell["name"] == name), None)


def a_byte_on_the_nodes_disk(world, project, digest):
    """The unpacked image is shared by all cells of the node; one byte of it changes, and nothing starts from it any more."""
    project.allocate("b")
    unpacked = next(world.data.glob(f"nodes/**/images/sha256-{digest.split(':')[1]}/rootfs/www/index.html"))
    before = unpacked.stat()
    text = unpacked.read_bytes()
    unpacked.write_bytes(b"I" + text[1:])
    os.utime(unpacked, ns=(before.st_atime_ns, before.st_mtime_ns))
    restarted = project.muster("cell", "restart", "web", "--wait", "--timeout", "60s")
    # It was recreated from a fresh pull, or rejected: the changed byte runs in neither case.
    if restarted.returncode == 0:
        served = project.exec("web", "cat", "/www/index.html").stdout
        assert served == text.decode(), f"a changed image runs: {served}"
    else:
        assert "index.html" in restarted.stdout + restarted.stderr or "changed" in restarted.stdout + restarted.stderr, restarted


def a_byte_on_the_registrys_disk(world, project, slug):
    digest = pushed_again(world, project, slug)
    manifest = json.loads(project.world.server.request(
        "GET", f"/v2/{slug}.work/again/manifests/{digest}", token=project.tokens["tenant_admin"])[2])
    layer = manifest["layers"][0]["digest"].split(":")[1]
    file = next(world.data.glob(f"registry/blobs/*/{layer}-*"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.chmod(0o600)
    file.write_bytes(content)
    reason = fails(project, "damaged", "b", {"root": {"image": digest}}, "digest")
    assert reason == "artifact_damaged", reason
    verified = project.muster("artifact", "verify", f"again@{digest}")
    assert verified.returncode != 0 and "push it again" in verified.stderr, verified
    # A damaged blob is out of use, and a push repairs it.
    pushed(world, project, f"{slug}.work/again", "v1")
    project.cell("healed", "b", {"root": {"image": digest}})
    project.said("cell", "destroy", "healed", "--wait", "--timeout", "60s")


def pushed_again(world, project, slug):
    """Another image, so that the node has nothing of it."""
    folder = world.folder / "other"
    kept, image.FILES = image.FILES, {**image.FILES, "www/other": "other\n"}
    try:
        image.make(folder)
    finally:
        image.FILES = kept
    world.images = folder
    return pushed(world, project, f"{slug}.work/again", "v1")


def a_revoked_key(project):
    """Running cells continue; a start, even a restart in the same allocation, is rejected before anything is stopped."""
    project.said("key", "revoke", "builds", "--reason", "it was left on a train")
    refused = project.muster("cell", "restart", "web", "--wait", "--timeout", "60s")
    assert refused.returncode != 0 and "revoked" in refused.stderr, refused
    assert project.exec("web", "cat", "/www/name").stdout == "web"
    eventually(lambda: audited(project, "key.revoke", "it was left on a train"))


def audited(project, *words):
    path = f"/v1/audit?project={project.project['id']}&page_size=200"
    entries = project.world.server.call("GET", path, token=project.tokens["tenant_admin"])["items"]
    assert any(all(word in json.dumps(entry) for word in words) for entry in entries), entries[-3:]


def nothing_leaked(world, project, secrets):
    places = places_to_look(world, project)
    found = secrets.search(places)
    assert not found, found
    # The search itself is tried: each planted leak must be found.
    for name, text in secrets.text.items():
        for how, written in canaries.forms(text):
            assert secrets.search({"planted": written}), f"{name} as {how} is not found"
    planted = world.folder / "planted"
    planted.write_text("x" + next(iter(secrets.text.values())))
    assert secrets.search({**places, **canaries.files(world.folder)}), "a planted file is not found"
    planted.unlink()


def places_to_look(world, project):
    """Everything that is written or shown: files of server and nodes (databases, logs, disks, images), rows, events, audit, stored
    answers, error bodies, and what every process shows of itself."""
    places = {**canaries.files(world.data), **canaries.files("/run")}
    with sqlite3.connect(f"file:{world.data}/muster.db?mode=ro", uri=True) as database:
        places["a dump of the database"] = "\n".join(database.iterdump()).encode(errors="surrogateescape")
    server, admin = world.server, project.tokens["tenant_admin"]
    for path in ("/v1/events?page_size=200&project=" + project.project["id"], "/v1/audit?page_size=200&project=" + project.project["id"],
                 f"/v1/projects/{project.project['id']}/secrets", f"/v1/projects/{project.project['id']}/cells"):
        places[path] = server.request("GET", path, token=admin)[2]
    places.update(error_bodies(server, project))
    places.update(canaries.processes())
    return places


def error_bodies(server, project):
    """Errors do not repeat rejected content: neither by the schema, nor by the parser."""
    path, admin, answers = f"/v1/projects/{project.project['id']}/secrets", project.tokens["tenant_admin"], {}
    value = canaries.last()
    for name, body in (("a wrong type", {"name": "x", "value": {"inside": value}}),
                       ("an unknown field", {"name": "x", "value": value, "more": value}),
                       ("a bad name", {"name": "NO " + value, "value": value})):
        status, _, answer = server.request("POST", path, body, token=admin, headers={"Idempotency-Key": name.replace(" ", "-")})
        assert status == 400, answer
        if name != "a bad name":
            answers[f"the answer to {name}"] = answer
    return answers
