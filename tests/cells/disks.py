"""The disks of the node, the server and the registry are full for a while: afterwards everything works, and nothing is lost."""

import base64
import contextlib
import hashlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import artifacts
import image
import snapshot
from world import World, eventually
from platform_under_test import Server

sys.path.append(str(Path(__file__).resolve().parent.parent / "registry"))
from checker import Shelf  # noqa: E402

FULL = "the node's disk is full"
WRITER = "i=0; while true; do i=$((i+1)); echo $i >>/data/count && sync; sleep 0.1; done"


def run(world):
    with small(300) as server_disk, small(400) as node_disk, small(100) as registry_disk, World() as fresh:
        fresh.hold = world.hold
        fresh.data = server_disk / "data"
        fresh.server = Server(fresh.data)
        nodes = fresh.data / "nodes"
        nodes.mkdir(parents=True, mode=0o700)
        subprocess.run(["mount", "--bind", node_disk, nodes], check=True)
        try:
            play(fresh, server_disk, node_disk, registry_disk)
        finally:
            if fresh.process:
                fresh.stop()
            fresh.said("down", "--data-dir", str(fresh.data))
            subprocess.run(["umount", nodes], check=True)


def play(world, server_disk, node_disk, registry_disk):
    # Interrupted pushes are removed after seconds instead of a day.
    world.registry = ("--registry-dir", str(registry_disk / "registry"), "--registry-garbage-every-seconds", "1",
                      "--registry-garbage-grace-seconds", "15")
    world.up(1, *world.registry)
    project = world.project()
    slug = json.loads(world.said("-o", "json", "tenant", "get", project.project["tenant_id"]))["slug"]
    before = artifacts.pushed(world, project, f"{slug}.work/before", "v1")
    allocation = project.allocate("a")
    project.cell("a", "a", world.spec(
        state=["/data"], services=[{"name": "writer", "command": ["/bin/sh", "-c", WRITER]}]))
    a_reserve_is_kept(world, node_disk)
    the_node_is_full(world, project, node_disk, allocation)
    the_server_is_full(world, project, server_disk)
    the_registry_is_full(world, project, registry_disk, slug)
    disk_with_an_error(world, project, "c")
    project.release("c")
    nothing_is_lost(world, project, f"{slug}.work/before", before)
    nothing_is_left(world, registry_disk)
    project.release("a")
    world.audit("n1")
    # `muster down` removes it.
    disk_with_an_error(world, project, "d")


@contextlib.contextmanager
def small(mb):
    """A file system of its own, and its mount point."""
    folder = Path(tempfile.mkdtemp(prefix="muster-disk-"))
    snapshot.OUR_FOLDERS.add(str(folder))
    file, at = folder / "file", folder / "at"
    at.mkdir()
    with open(file, "wb") as made:
        made.truncate(mb << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", file], check=True)
    subprocess.run(["mount", "-o", "loop", file, at], check=True)
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)
        shutil.rmtree(folder)


@contextlib.contextmanager
def full(world, at):
    """Not a byte is free there for a while, whatever others give back meanwhile."""
    file, filled, over = at / "everything", threading.Event(), threading.Event()
    until = time.monotonic() + world.hold

    def fill():
        with open(file, "wb", buffering=0) as filler:
            while not over.is_set():
                for size in (1 << 20, 4096, 1):
                    with contextlib.suppress(OSError):
                        while filler.write(b"x" * size):
                            pass
                filled.set()
                over.wait(0.05)

    filler = threading.Thread(target=fill)
    filler.start()
    try:
        assert filled.wait(60), "it does not become full"
        yield
        time.sleep(max(0, until - time.monotonic()))
    finally:
        over.set()
        filler.join()
        file.unlink()


def a_reserve_is_kept(world, at):
    size = os.statvfs(at)
    size = size.f_blocks * size.f_frsize >> 20
    offered = json.loads(world.said("-o", "json", "node", "get", "n1"))["total"]["disk_mb"]
    assert 0 < offered <= size * 3 // 4 + 1, (offered, size)


def mounted(allocation):
    """Where the disk of an allocation is mounted, and its device."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = line.split()
        if words[4].endswith(f"/disks/{allocation['id']}"):
            return Path(words[4]), line.rpartition("/dev/")[2].split()[0]
    raise AssertionError(f"the disk of {allocation['name']} is not mounted")


def count(allocation):
    """Returns the writer's progress, read from outside."""
    (file,) = mounted(allocation)[0].glob("state/*/*/count")
    return int(file.read_text().split()[-1])


def the_node_is_full(world, project, at, allocation):
    """An allocation has all its room from the start: a full node fails none of its writes. What needs no room on the node works; what
    does is refused with the reason, or waits with it. An agent that ends meanwhile comes back."""
    eventually(lambda: counted(allocation, 0))
    project.allocate("r")
    with full(world, at):
        before = count(allocation)
        large = mounted(allocation)[0] / "large"
        with open(large, "wb") as file:
            file.write(os.urandom(30_000_000))
            file.flush()
            os.fsync(file.fileno())
        large.unlink()
        eventually(lambda: counted(allocation, before))
        assert project.said("exec", "a", "--", "echo", "here") == "here\n"
        eventually(lambda: is_impaired(project, "a", FULL))
        asked = [submitted(project, "allocation", "release", "r"),
                 submitted(project, "cell", "create", "x", "--allocation", "a", "--spec", json.dumps(world.spec()))]
        for operation in asked:
            eventually(lambda: waits_for_room(project, operation))
        kill_agent()
        eventually(lambda: answers(project))
    began = time.monotonic()
    project.said("exec", "a", "--", "true")
    print(f"    exec {time.monotonic() - began:.1f} s after the node had room", flush=True)
    ended = [eventually(lambda: is_ended(project, operation)) for operation in asked]
    print(f"    {ended} {time.monotonic() - began:.1f} s after the node had room", flush=True)
    # Creation is given up after three tries; release is not.
    assert ended[0] == "succeeded" and ended[1] in ("succeeded", "failed"), ended
    eventually(lambda: is_well(project, "a"))
    before = count(allocation)
    eventually(lambda: counted(allocation, before))
    project.allocate("b")
    project.cell("b", "b", world.spec())
    project.release("b")
    # Also after a restart.
    world.stop()
    world.up(1, *world.registry)
    project.said("exec", "a", "--", "true")
    before = count(allocation)
    eventually(lambda: counted(allocation, before))


def answers(project):
    assert project.exec("a", "true").returncode == 0


def kill_agent():
    """Kills the agent; `muster up` restarts it."""
    agents = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit() and is_agent(folder)]
    assert len(agents) == 1, agents
    os.kill(int(agents[0].name), signal.SIGKILL)


def is_agent(folder):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return (folder / "cmdline").read_bytes().split(b"\0")[1:3] == [b"agent", b"run"]
    return False


def submitted(project, *words):
    operation = json.loads(project.said("-o", "json", *words))
    return (operation.get("operation") or operation)["id"]


def waits_for_room(project, operation):
    said = project.said("operation", "get", operation)
    assert FULL in said, said


def is_ended(project, operation):
    operation = json.loads(project.said("-o", "json", "operation", "get", operation))
    assert operation["state"] in ("succeeded", "failed", "blocked"), operation
    return operation["state"]


def is_well(project, name):
    cell = json.loads(project.said("-o", "json", "cell", "get", name))
    assert cell["health"] == "healthy", cell


def counted(allocation, before):
    try:
        assert count(allocation) > before, before
    except (ValueError, IndexError) as error:
        raise AssertionError("nothing is counted yet") from error


def the_server_is_full(world, project, at):
    assert ready(world) == (200, "ready\n")
    path, token = f"/v1/projects/{project.project['id']}/secrets", project.tokens["tenant_admin"]
    content = base64.b64encode(os.urandom(40_000)).decode()

    def write(number):
        headers = {"Idempotency-Key": f"full-{number}"}
        return world.server.request("POST", path, {"name": f"s{number}", "value": content}, token=token, headers=headers)

    with full(world, at):
        # A log that has room already takes some writes.
        for number in range(400):
            status, _, body = write(number)
            if status != 201:
                break
        assert status == 507 and json.loads(body)["code"] == "storage_full", (status, body)
        assert "full" in json.loads(body)["detail"], body
        # It is computed once a second at most.
        eventually(lambda: is_reported_full(world), seconds=2)
        assert "a" in project.said("allocation", "list"), "reads do not go on"
    began = time.monotonic()
    eventually(lambda: is_ready(world))
    print(f"    /readyz {time.monotonic() - began:.1f} s after the server had room", flush=True)

    def same_request_succeeds():
        status, _, body = write(number)
        assert status == 201, (status, body)

    eventually(same_request_succeeds)
    eventually(lambda: node_is_ready(world))


def ready(world):
    status, _, body = world.server.request("GET", "/readyz", token="")
    return status, body.decode()


def is_reported_full(world):
    status, why = ready(world)
    assert status == 503 and "the disk of the data folder is full" in why, (status, why)


def is_ready(world):
    assert ready(world)[0] == 200, ready(world)


def node_is_ready(world):
    assert json.loads(world.said("-o", "json", "node", "get", "n1"))["state"] == "ready"


def the_registry_is_full(world, project, at, slug):
    other = world.folder / "other"
    image.make(other, {**image.FILES, "www/other": "x" * 3_000_000})

    def request(method, path, body=None):
        return world.server.request(method, path, body, token=project.tokens["tenant_admin"])

    status, headers, _ = request("POST", f"/v2/{slug}.work/cut/blobs/uploads/")
    assert status == 202, status
    with full(world, at):
        # Created before the disk was full, and never continued.
        status, _, body = request("PATCH", headers["location"], "x" * 3_000_000)
        assert status == 507, (status, body)
        assert list(at.glob("registry/uploads/*/*")), "an interrupted push can be continued"
        try:
            artifacts.pushed(world, project, f"{slug}.work/during", "v1", other)
        except AssertionError as refused:
            assert "507" in str(refused) or "no room" in str(refused), refused
        else:
            raise AssertionError("a full registry took an image")
        assert json.loads(project.said("-o", "json", "artifact", "get", "before:v1"))["state"] == "draft"
    eventually(lambda: is_ready(world))
    artifacts.pushed(world, project, f"{slug}.work/after", "v1", other)


def disk_with_an_error(world, project, name):
    """The kernel makes a file system read-only after an error: the agent reports it."""
    allocation = project.allocate(name)
    for cell in (f"{name}1", f"{name}2"):
        project.cell(cell, name, world.spec(state=["/data"]))
    _, device = mounted(allocation)
    Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("a test's own error")
    assert project.exec(f"{name}1", "sh", "-c", "echo x >/data/x && sync").returncode != 0
    log = world.data / "nodes/n1/agent.log"
    eventually(lambda: told(log.read_text(), allocation["id"]))
    eventually(lambda: is_impaired(project, f"{name}1", "read-only"))


def is_impaired(project, name, why):
    cell = json.loads(project.said("-o", "json", "cell", "get", name))
    assert cell["health"] == "degraded" and why in cell["health_message"], cell


def told(log, allocation):
    assert any("read-only" in line and allocation in line for line in log.splitlines()), "the agent tells nothing"


def nothing_is_lost(world, project, path, digest):
    """Neither rows, nor audit entries, nor the image that was there before."""
    with contextlib.closing(sqlite3.connect(f"file:{world.data}/muster.db?mode=ro", uri=True)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    export = str(world.folder / "audit.jsonl")
    world.said("audit", "export", "--file", export)
    world.said("audit", "verify", export)
    manifest = json.loads(pulled(world, project, f"{path}/manifests/v1", digest))
    for part in (manifest["config"], *manifest["layers"]):
        pulled(world, project, f"{path}/blobs/{part['digest']}", part["digest"])


def pulled(world, project, path, digest):
    status, _, body = world.server.request("GET", f"/v2/{path}", token=project.tokens["tenant_admin"])
    assert status == 200, (path, status, body[:500])
    assert "sha256:" + hashlib.sha256(body).hexdigest() == digest, f"{path} has other bytes"
    return body


def nothing_is_left(world, registry_disk):
    """Neither an interrupted push, nor a file or a row that no image needs, nor an incomplete image."""
    shelf = world.folder / "shelf"
    shelf.mkdir()
    (shelf / "registry").symlink_to(registry_disk / "registry")
    (shelf / "muster.db").symlink_to(world.data / "muster.db")
    began = time.monotonic()
    eventually(lambda: is_clean(Shelf(shelf)), seconds=45)
    print(f"    nothing left in the registry after {time.monotonic() - began:.1f} s more", flush=True)


def is_clean(shelf):
    assert len(shelf.manifests) == 2, [*shelf.manifests]
    assert not (faults := shelf.lost() + shelf.wasted()), faults
