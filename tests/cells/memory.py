"""A tenant does its worst to a real agent: the largest specifications, many commands at once, endless logs. Its memory stays bounded."""

import json
import threading
from pathlib import Path

AGENT_MOST_MB = 100
CELLS, COMMANDS = 12, 24


def run(world):
    world.up(1)
    project = world.project()
    project.allocate("a", **{"cpus": "2", "memory-mb": "1024", "disk-mb": "256"})
    loud = {"name": "loud", "command": ["/bin/sh", "-c", "i=0; while [ $i -lt 40000 ]; do echo $i " + "x" * 200 + "; i=$((i+1)); done; exec sleep 100000"]}
    large = {
        "environment": {f"V{part}": "x" * 30_000 for part in range(4)},
        "files": [{"path": f"/large-{part}", "text": "y" * 250_000} for part in range(2)],
    }
    at_once([lambda number=number: create(project, f"large-{number}", world.spec(**large)) for number in range(CELLS)])
    project.cell("loud", "a", world.spec(services=[loud]))
    # Two megabytes each to standard output, and the complete log again and again.
    writes = ["sh", "-c", "busybox head -c 2000000 /dev/zero | busybox tr '\\0' z"]
    calls = [lambda number=number: project.exec(f"large-{number % CELLS}", *writes) for number in range(COMMANDS)]
    calls += [lambda: project.muster("logs", "loud") for _ in range(8)]
    done = at_once(calls)
    assert all(len(answer.stdout) == 2_000_000 for answer in done[:COMMANDS] if answer.returncode == 0), "a command's output was cut"
    assert sum(answer.returncode == 0 for answer in done) > COMMANDS / 2, [answer.stderr[-200:] for answer in done]
    peaks = agents(world)
    print(f"    agent: {', '.join(f'{peak:.0f} MB' for peak in peaks)}", flush=True)
    assert peaks and max(peaks) < AGENT_MOST_MB, peaks
    project.release("a")


def create(project, name, spec):
    """By file, since a specification is longer than a command line may be."""
    path = project.world.folder / f"{name}.json"
    path.write_text(json.dumps({"name": name, "allocation": "a", "spec": spec}))
    project.said("cell", "create", "--body", str(path), "--wait", "--timeout", "90s")


def at_once(calls):
    answers, faults = [None] * len(calls), []

    def one(index, call):
        try:
            answers[index] = call()
        except Exception as fault:
            faults.append(fault)

    threads = [threading.Thread(target=one, args=entry, daemon=True) for entry in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if faults:
        raise faults[0]
    return answers


def agents(world):
    """Peak memory of the agents of this platform."""
    peaks = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if b"agent" in words and str(world.data).encode() in b" ".join(words):
                status = (process / "status").read_text()
                peaks.append(int(status.split("VmHWM:")[1].split()[0]) / 1024)
        except (FileNotFoundError, ProcessLookupError, IndexError):
            continue
    return peaks
