"""Everything on the machine that a cell, a network or a disk could leave behind, and the difference between two snapshots.

A snapshot contains the view of this process: inside separate PID, mount and network namespaces that is only the test's,
except for control groups, loop devices and users, of which a kernel has one set. Of the first two, those of nodes
outside the test are ignored, because other nodes may run on this machine at the same time.
"""

import json
import os
import re
import subprocess
from pathlib import Path

IGNORED = Path(__file__).resolve().parent / "ignored.txt"
MOST_IGNORED = 10
KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")

# The folders of the test's worlds, and the ends of its nodes' ids, which name their control groups.
OUR_FOLDERS, OUR_NODES = set(), set()


def text(path):
    try:
        return Path(path).read_text(errors="replace")
    except OSError:  # a process that ended in between
        return ""


def processes():
    """By command line; a process id would not identify it. Kernel threads have none."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            line = text(folder / "cmdline").replace("\0", " ").strip()
            zombie = text(folder / "stat").rpartition(") ")[2].startswith("Z")
            if line or zombie:
                found[folder.name] = line or f"zombie {text(folder / 'comm').strip()}"
    return found


def mounts():
    """(mount point, type, source) of each mount in this namespace."""
    found = []
    for line in text("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, source = after.split(" ")[:2]
        found.append((before.split(" ")[4], kind, source))
    return found


def namespaces():
    """Each namespace that a process is in or a file holds: its name, and a path that leads there."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            for kind in KINDS:
                path = folder / "ns" / kind
                try:
                    found.setdefault(os.readlink(path), str(path))
                except OSError:
                    pass
    for point, kind, _ in mounts():
        if kind == "nsfs":
            found[f"held by {point}"] = point
    return found


def in_namespace(path, *command):
    done = subprocess.run(["nsenter", f"--net={path}", "--", *command], capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def networks(names):
    """Links, rules and listening ports of each network namespace, by the namespace's name."""
    links, rules, ports = set(), set(), set()
    for name, path in names.items():
        if not name.startswith(("net:", "held by ")):
            continue
        for link in json.loads(in_namespace(path, "ip", "-j", "link", "show") or "[]"):
            links.add(f"{link['ifname']} in {name}")
        for line in in_namespace(path, "nft", "list", "ruleset").splitlines():
            rules.add(f"{line.strip()} in {name}")
        for line in in_namespace(path, "ss", "-Hlntu").splitlines():
            words = line.split()
            ports.add(f"{words[0]} {words[4]} in {name}")
    return links, rules, ports


def control_groups():
    return {folder for folder, _, _ in os.walk("/sys/fs/cgroup") if folder != "/sys/fs/cgroup"}


def loops():
    found = set()
    for folder in Path("/sys/block").glob("loop*"):
        file = text(folder / "loop" / "backing_file").strip()
        if file:
            found.add(f"{folder.name} {file}")
    return found


def files(folders):
    found = set()
    for top in folders:
        for folder, inner, names in os.walk(top):
            found |= {os.path.join(folder, name) for name in inner + names}
    return found


def take(folders=("/run", "/dev/shm")):
    """Takes a snapshot: for each kind of object a sorted list of lines."""
    names = namespaces()
    links, rules, ports = networks(names)
    seen = {
        "process": list(processes().values()),
        "mount": {" ".join(mount) for mount in mounts()},
        "namespace": set(names),
        "link": links,
        "rule": rules,
        "port": ports,
        "cgroup": control_groups(),
        "user": set(text("/etc/passwd").splitlines()),
        "loop": loops(),
        "file": files(folders),
    }
    return {kind: sorted(lines) for kind, lines in seen.items()}


def ignored():
    """(kind, pattern) of each line of the golden file. Every line has its reason, and there are few."""
    rules = []
    for line in IGNORED.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        rule, reason = line.split("  # ")
        if not reason.strip():
            raise ValueError(f"{IGNORED.name}: a line has no reason: {line}")
        kind, pattern = rule.split(" ", 1)
        rules.append((kind, re.compile(pattern.strip())))
    if len(rules) > MOST_IGNORED:
        raise ValueError(f"{IGNORED.name}: more than {MOST_IGNORED} things are ignored")
    return rules


def is_anothers(kind, line):
    if kind == "loop":
        return not any(folder in line for folder in OUR_FOLDERS)
    node = re.search(r"/muster/([^/]+)", line)
    return kind == "cgroup" and node is not None and node[1] not in OUR_NODES


def difference(before, after, rules=None):
    """Returns added (+) and removed (-) lines, without ignored ones. Duplicate lines count separately."""
    rules = ignored() if rules is None else rules
    found = []
    for kind, there in after.items():
        came, went = list(there), []
        for line in before[kind]:
            if line in came:
                came.remove(line)
            else:
                went.append(line)
        for sign, lines in (("+", came), ("-", went)):
            found += [f"{sign} {kind} {line}" for line in lines if not is_anothers(kind, line) and not any(
                kind == ignored_kind and pattern.search(line) for ignored_kind, pattern in rules)]
    return found
