"""Tests the checks of the other scenarios: one object of each kind is left behind on purpose."""

import contextlib
import socket
import subprocess
import uuid
from pathlib import Path

import image
import snapshot


def run(world):
    assert image.make(world.folder / "again") == world.digest, "the image is another one each time it is made"
    before = snapshot.take()
    with contextlib.ExitStack() as afterwards:
        make_a_mess(world.folder, afterwards.callback)
        seen = {line.split(" ")[1] for line in snapshot.difference(before, snapshot.take()) if line.startswith("+")}
        assert seen == set(before), f"not seen: {set(before) - seen}"
    left = snapshot.difference(before, snapshot.take())
    assert not left, left


def make_a_mess(folder, afterwards):
    """Something of each kind that a cell could leave; how to remove it is noted as soon as it is there."""
    name = f"mess{uuid.uuid4().hex[:8]}"
    file = Path("/run") / name
    file.touch()
    afterwards(file.unlink)
    afterwards(tell, "umount", file)
    tell("unshare", f"--net={file}", "true")

    hierarchy = Path("/sys/fs/cgroup/cpu")
    groups = (hierarchy if hierarchy.is_dir() else hierarchy.parent) / "muster"
    (groups / name).mkdir(parents=True)
    snapshot.OUR_NODES.add(name)
    afterwards((groups / name).rmdir)

    process = subprocess.Popen(["sleep", "1000"])
    afterwards(process.wait)
    afterwards(process.kill)
    afterwards(socket.create_server(("127.0.0.1", 0)).close)

    tell("ip", "link", "add", "name", name, "type", "bridge")
    afterwards(tell, "ip", "link", "del", "dev", name)
    tell("nft", "add", "table", "inet", name)
    afterwards(tell, "nft", "delete", "table", "inet", name)

    disk, users = folder / "disk", folder / "passwd"
    disk.write_bytes(bytes(1 << 20))
    afterwards(tell, "losetup", "--detach", tell("losetup", "--find", "--show", disk))
    # Over the machine's own, for this mount namespace only.
    users.write_text(Path("/etc/passwd").read_text() + f"{name}:x:4242:4242::/:/bin/false\n")
    tell("mount", "--bind", users, "/etc/passwd")
    afterwards(tell, "umount", "/etc/passwd")


def tell(*words):
    done = subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()
