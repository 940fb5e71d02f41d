"""Root on one node attacks another one through the file system that both share.

The honest node is real, with a real agent and real cells. Root on the hostile one is this test: it writes to the shared folder at any
moment. The honest node must follow nothing, wait for nothing and change nothing outside the folder, and its members work or are refused
with the reason.
"""

import contextlib
import ctypes
import json
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "cells")]
import snapshot  # noqa: E402
from own_agent import OwnAgent  # noqa: E402
from world import World, eventually  # noqa: E402

REASON = "another node put something else"
MANIFEST = {
    "app": "common", "version": "1.0.0", "artifact_kind": "launchable",
    "compatibility": {"requires_capacity_shape": ["gpu_slice", "baremetal"]},
    "components": [{
        "key": "worker", "description": "One of several that share a directory.", "count": {"min": 1, "max": 60},
        "capacity": {"gpus": 0, "cpus": 1, "memory_mb": 64, "disk_mb": 64}, "shared": ["/home"],
        "runtime": {"root": {"host": ["/usr", "/bin", "/lib", "/lib64"]},
                    "services": [{"name": "wait", "command": ["/usr/bin/sleep", "1000000"]}]},
    }],
    "operations": ["add", "remove"],
}
AT_FDCWD, RENAME_EXCHANGE = -100, 2
LIBC = ctypes.CDLL(None, use_errno=True)


def exchange(one, other):
    """Swaps two names at once."""
    done = LIBC.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE)
    assert done == 0, os.strerror(ctypes.get_errno())


def facts(path):
    """Everything about a directory and its content that an agent could change."""
    found = {}
    for folder, _, files in os.walk(path):
        for name in (".", *files):
            seen = os.lstat(os.path.join(folder, name))
            found[os.path.join(folder, name)] = (seen.st_mode, seen.st_uid, seen.st_gid, seen.st_size, seen.st_nlink)
    return found


class Scene:
    """An instance with one member on the honest node, and a directory of that node that the attacker wants."""

    def __init__(self, world, own):
        self.world, self.own, self.at = world, own, world.project()
        release = world.folder / "release.json"
        release.write_text(json.dumps(MANIFEST))
        self.at.said("app", "create", "common", "--display-name", "common")
        self.at.said("app-version", "publish", "common", "--file", str(release))
        for state in ("staged", "canary", "active"):
            self.at.said("app-version", "promote", "common", "1.0.0", "--to", state, "--reason", "a test")
        shown = json.loads(self.at.said("-o", "json", "entitlement", "grant", "common", "--dry-run"))
        self.at.said("entitlement", "grant", "common", *[word for name in shown["permissions"] for word in ("--consent", name)])
        self.at.said("instance", "create", "common", "--name", "lab", "--wait", "--timeout", "60s")
        self.shared = world.data / "nodes" / "shared"
        self.share = next(path for path in self.shared.iterdir() if path.name.startswith("net_"))
        self.home = self.share / "home"
        self.victim = world.folder / "victim"
        (self.victim / "home").mkdir(parents=True)
        (self.victim / "home" / "secret").write_text("of the node")
        self.victim.chmod(0o755)
        self.before = facts(self.victim)

    def restart_agent(self):
        assert self.own.end(signal.SIGTERM) == 0, self.world.logs()
        self.own.start()
        assert self.own.process.poll() is None, f"the agent does not start: {self.world.logs()}"

    def works(self):
        """The honest node still does what has nothing to do with shares."""
        self.at.allocate("plain", **{"memory-mb": "64"})
        self.at.cell("plain", "plain", self.world.spec())
        assert self.at.exec("plain", "echo", "it works").stdout == "it works\n"
        self.at.release("plain")

    def add(self):
        """Adds a member on the honest node; its output, and its cell if it has one."""
        began = time.monotonic()
        ended = self.at.muster("member", "add", "lab", "worker", "--wait", "--timeout", "30s")
        assert time.monotonic() - began < 30, f"it did not end: {ended.stdout}{ended.stderr}"
        return ended

    def member_works(self):
        """Another member works, and is removed again."""
        ended = self.add()
        assert ended.returncode == 0, f"{ended.stdout}{ended.stderr}{self.world.logs()}"
        self.remove(self.newest())

    def newest(self):
        return max(json.loads(self.at.said("-o", "json", "member", "list", "lab"))["items"], key=lambda member: member["id"])["name"]

    def remove(self, member):
        self.at.said("member", "remove", "lab", member, "--wait", "--timeout", "60s")

    def is_unharmed(self):
        """Nothing outside the share was changed, and the agent did not end."""
        assert facts(self.victim) == self.before, "the agent changed a directory of its node"
        assert self.own.process.poll() is None, f"the agent ended: {self.world.logs()}"


    def refused_with(self, replace, restore):
        """A member is refused with the reason while something else lies there, and works again afterwards."""
        kind = replace()
        ended = self.add()
        said = ended.stdout + ended.stderr
        assert ended.returncode == 10 and REASON in said, f"{kind}: {ended.returncode} {said}"
        self.is_unharmed()
        restore()


def put(path, kind, target=None):
    """Objects that root on a node can put in the place of a directory."""
    if kind == "link":
        path.symlink_to(target)
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "device":
        os.mknod(path, stat.S_IFBLK | 0o666, os.makedev(7, 0))
    elif kind == "file":
        # Sparse, and longer than any memory.
        path.touch()
        os.truncate(path, 1 << 42)
    elif kind == "mark":
        path.write_text("x" * 5000)


def replaced(scene):
    """Links, FIFOs, devices and files in the place of a share and of a directory in it."""
    for place, kinds in ((scene.share, ("link", "device")), (scene.home, ("link", "fifo", "file"))):
        for kind in kinds:
            aside = scene.shared / "aside"

            def replace(place=place, kind=kind, aside=aside):
                place.rename(aside)
                put(place, kind, scene.victim)
                return f"{kind} in the place of {place.name}"

            def restore(place=place, aside=aside):
                place.unlink()
                aside.rename(place)
            scene.refused_with(replace, restore)
    scene.member_works()
    return "5 things in the place of a directory: refused with the reason"


def swapped(scene):
    """A directory and a link are swapped all the time: between any check and any use."""
    ended, swaps = threading.Event(), [0]
    decoys = []
    for place in (scene.share, scene.home):
        decoy = scene.shared / f"decoy-{place.name}"
        decoy.symlink_to(scene.victim)
        decoys.append((place, decoy))

    def swap():
        while not ended.is_set():
            # The inner one first, while the outer one is there.
            for place, decoy in (decoys[1], decoys[1], decoys[0], decoys[0]):
                exchange(place, decoy)
                swaps[0] += 1
                time.sleep(0.0005)
    racer = threading.Thread(target=swap)
    racer.start()
    results = {}
    try:
        for _ in range(3):
            answer = scene.add()
            said = answer.stdout + answer.stderr
            assert answer.returncode in (0, 10), said
            assert answer.returncode == 0 or REASON in said, said
            results[answer.returncode] = results.get(answer.returncode, 0) + 1
            if answer.returncode == 0:
                seen = scene.at.exec(scene.newest(), "/usr/bin/ls", "-A", "/home")
                assert seen.returncode == 0 and "secret" not in seen.stdout, seen
                scene.remove(scene.newest())
    finally:
        ended.set()
        racer.join()
        for _, decoy in decoys:
            decoy.unlink()
    scene.is_unharmed()
    scene.member_works()
    return f"{swaps[0]} swaps: {results.get(0, 0)} members work, {results.get(10, 0)} refused"


def owners(scene):
    """Other owners and modes of the folder, a share and a directory: a member works, and no other one gets in."""
    for path, mode in ((scene.shared, 0o777), (scene.share, 0o777), (scene.home, 0o000)):
        os.chown(path, 1000, 1000)
        path.chmod(mode)
    scene.member_works()
    found = os.lstat(scene.shared)
    assert (found.st_uid, stat.S_IMODE(found.st_mode)) == (0, 0o700), found
    assert os.lstat(scene.home).st_uid > 65536, os.lstat(scene.home)
    written = scene.at.exec("lab-worker-1", "/usr/bin/touch", "/home/mine")
    assert written.returncode == 0, written
    scene.is_unharmed()
    return "owners and modes are the platform's again"


def planted(scene):
    """Devices, programs with the rights of root, links and hard links inside a directory that a member on the honest node has."""
    device, program, link, hard = (scene.home / name for name in ("device", "program", "link", "hard"))
    os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    device.chmod(0o666)
    shutil.copy("/usr/bin/id", program)
    os.chown(program, 0, 0)
    program.chmod(0o4755)
    link.symlink_to(scene.victim / "home" / "secret")
    os.link(scene.shared / ".muster.json", hard)
    mark = (scene.shared / ".muster.json").read_text()
    run = lambda *words: scene.at.exec("lab-worker-1", *words)
    assert os.path.exists("/dev/zero") and open(device, "rb").read(1) == b"\0", "the attack works outside of a cell"
    assert run("/usr/bin/head", "-c", "1", "/home/device").returncode != 0, "a device of the shared file system opens"
    said = run("/home/program", "-u")
    assert said.stdout.strip() == "0", said
    as_user = run("/usr/bin/setpriv", "--reuid", "1000", "--clear-groups", "/home/program", "-u").stdout.strip()
    assert as_user == "1000", f"a program of the shared file system gave {as_user} its rights"
    assert "of the node" not in run("/usr/bin/cat", "/home/link").stdout
    for words in (("sh", "-c", "echo x > /home/hard"), ("chown", "0:0", "/home/hard"), ("cat", "/home/hard")):
        assert run("/usr/bin/env", *words).returncode != 0, f"{words} on a file of the platform"
    assert (scene.shared / ".muster.json").read_text() == mark
    copied = scene.at.muster("cp", "lab-worker-1:/home/device", str(scene.world.folder / "copied"), timeout=20)
    assert copied.returncode != 0, copied
    scene.is_unharmed()
    for path in (device, program, link, hard):
        path.unlink()
    return "devices, rights, links and hard links inside a share lead nowhere"


def marks(scene):
    """The mark and the folder itself are replaced while the honest node's agent starts: it serves, without shares and with the reason."""
    mark = scene.shared / ".muster.json"
    good = mark.read_text()
    first = json.loads(good)["first_id"]
    texts = {"another identity": json.dumps({"id": "foreign", "first_id": first}),
             "an identity with a NUL": json.dumps({"id": "a\0b", "first_id": first})}
    for kind in ("fifo", "file", *texts):
        mark.unlink()
        if kind in texts:
            mark.write_text(texts[kind])
        else:
            put(mark, kind, "/dev/zero")
        scene.restart_agent()
        ended = scene.add()
        said = ended.stdout + ended.stderr
        assert ended.returncode != 0 and ("shares no files" in said or "another shared file system" in said), f"{kind}: {said}"
        mark.unlink()
        mark.write_text(good)
        mark.chmod(0o600)
    aside = scene.shared.parent / "aside"
    scene.shared.rename(aside)
    scene.shared.symlink_to(scene.victim)
    scene.restart_agent()
    scene.works()
    scene.is_unharmed()
    scene.shared.unlink()
    aside.rename(scene.shared)
    scene.restart_agent()
    scene.member_works()
    scene.is_unharmed()
    return f"{len(texts) + 3} marks and folders: the agent serves without them"


def countless(scene):
    """More entries than a report can have, and names that are none: the node is still compared with its rows."""
    for number in range(11_000):
        (scene.shared / f"net_01{number:024d}").touch()
        if number % 20 == 0:
            (scene.shared / f"{number}\n..").touch()
    said = scene.world.muster("node", "audit", "n1", "--wait", "--timeout", "60s")
    assert "audit" in said.stdout + said.stderr and said.returncode in (0, 10, 13), said
    scene.works()
    scene.is_unharmed()
    with open(f"/proc/{scene.own.process.pid}/status") as status:
        peak = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    assert peak < 100, f"the agent had {peak:.0f} MB"
    subprocess.run(["find", scene.shared, "-maxdepth", "1", "-type", "f", "!", "-name", ".muster.json", "-delete"], check=True)
    return f"11,550 entries: the agent had {peak:.0f} MB"


def removal(scene):
    """The share is removed with the instance, whatever is in it, and nothing that it leads to."""
    (scene.home / "link").symlink_to(scene.victim)
    os.mkfifo(scene.home / "fifo")
    (scene.shared / f".going-{scene.share.name}").symlink_to(scene.victim)
    above = os.getcwd()
    os.chdir(scene.home)
    for _ in range(2_000):
        os.mkdir("d")
        os.chdir("d")
    os.chdir(above)
    swaps, ended = [0], threading.Event()
    racer = threading.Thread(target=swap_below, args=(scene, swaps, ended))
    racer.start()
    try:
        answer = scene.at.muster("-o", "json", "instance", "decommission", "lab", "--wait", "--timeout", "60s")
        assert answer.returncode in (0, 13), answer
    finally:
        ended.set()
        racer.join()
    scene.is_unharmed()
    if answer.returncode == 13:
        # The attacker can delay the removal of what it shares, and the operation says so.
        (blocked,) = json.loads(scene.at.said("-o", "json", "operation", "list", "--state", "blocked"))["items"]
        scene.at.said("operation", "resolve", blocked["id"], "--action", "retry", "--wait", "--timeout", "60s")
    decoy = scene.shared / "decoy"
    left = [path.name for path in scene.shared.iterdir() if path not in (decoy, scene.shared / ".muster.json")]
    assert not left, left
    decoy.unlink()
    scene.is_unharmed()
    assert swaps[0], "nothing was swapped while it was removed"
    return f"2,000 directories deep, {swaps[0]} swaps meanwhile: removed"


def swap_below(scene, swaps, ended):
    """Swaps every directory of the share with a link to the victim, wherever the removal has moved it, until it is removed."""
    decoy = scene.shared / "decoy"
    decoy.symlink_to(scene.victim)
    while not ended.is_set():
        for folder in scene.shared.glob(f"*{scene.share.name}*"):
            for place in (folder, folder / "home", folder / "home" / "d"):
                with contextlib.suppress(AssertionError):
                    exchange(place, decoy)
                    swaps[0] += 1
                    exchange(place, decoy)
        time.sleep(0.0002)
    if not decoy.is_symlink():
        exchange(decoy, next(path for path in scene.shared.glob(f"*{scene.share.name}*") if path.is_symlink()))


CHECKS = (replaced, swapped, owners, planted, marks, countless, removal)


def main(only):
    """All checks run, so that one run reports all faults."""
    # As systemd gives an agent.
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    before, faults = snapshot.take(), []
    with World() as world, OwnAgent(world) as own:
        scene = Scene(world, own)
        for check in CHECKS:
            if only and check.__name__ not in only:
                continue
            began = time.monotonic()
            try:
                print(f"{check.__name__}: {check(scene)} ({time.monotonic() - began:.1f} s)", flush=True)
            except Exception as error:  # noqa: BLE001
                faults.append(f"{check.__name__}: {type(error).__name__}: {error}")
                print(f"BROKEN {faults[-1]}", flush=True)

    def is_as_before():
        left = snapshot.difference(before, snapshot.take())
        assert not left, "left behind:\n" + "\n".join(left)
    eventually(is_as_before, seconds=10)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
