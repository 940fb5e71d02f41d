"""Counts flushes with strace, to prove that both sides are durable.

With one client there is no sharing of flushes: every acknowledged write must have waited for one of its own, so there
are at least as many flushes as acknowledgements. With many clients both sides share them, and the counts only show how
well. It runs apart from the measurement, because strace slows everything down.
"""

import pathlib
import re
import signal
import subprocess
import time

from .processes import Broken, family

TABLE_LINE = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?(fsync|fdatasync)$", re.M)
NAMED = ("fsync", "fdatasync", "sync_file_range", "syncfs")
# strace prints an interrupted call twice, and only the first time with its path.
CALL = re.compile(rf"\b({'|'.join(NAMED)})\(\d+<([^>]*)>")


def held(pid):
    """Reports whether strace is attached to every thread of this process."""
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        return all("TracerPid:\t0\n" not in (task / "status").read_text() for task in tasks)
    except OSError:
        return True  # it has ended since


def attach(pids, file, how=("-c", "-e", "trace=fsync,fdatasync")):
    command = ["strace", "-f", "-q", *how, "-o", str(file)]
    for pid in pids:
        command += ["-p", str(pid)]
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                              start_new_session=True, text=True)
    try:
        until = time.monotonic() + 10
        while not all(map(held, pids)):
            if tracer.poll() is not None or time.monotonic() > until:
                raise Broken("strace could not attach to what it should count")
            time.sleep(0.02)
    except BaseException:
        tracer.kill()
        tracer.communicate()
        raise
    return tracer


def traced(pid, file, work, *how):
    """Does `work` while strace watches the process and all below it."""
    tracer = attach(family(pid), file, *how)
    try:
        return work()
    finally:
        tracer.send_signal(signal.SIGINT)  # strace writes its table and lets go
        tracer.communicate(timeout=20)


def trace_named(pid, folder, work):
    """The same as `trace`, and of how many directories: a file's name is on the disk only when its directory is."""
    file = folder / "strace.out"
    seen = traced(pid, file, work, ("-y", "-e", "trace=" + ",".join(NAMED)))
    calls = CALL.findall(file.read_text())
    counts = {name: sum(found == name for found, _ in calls) for name in NAMED}
    directories = sum(pathlib.Path(path).is_dir() for _, path in calls)
    return {"acknowledged": seen["ok"], "flushes": len(calls), "calls": counts, "of_directories": directories,
            "per_acknowledged": round(len(calls) / max(1, seen["ok"]), 3)}


def trace(pid, folder, work):
    """Does `work`, and gives the flushes that the process and all below it made meanwhile."""
    file = folder / "strace.out"
    seen = traced(pid, file, work)
    calls = {name: int(number) for number, name in TABLE_LINE.findall(file.read_text())}
    flushes = sum(calls.values())
    return {"acknowledged": seen["ok"], "flushes": flushes, "calls": calls,
            "per_acknowledged": round(flushes / max(1, seen["ok"]), 3)}


def judged(found):
    alone = found["one client"]
    return {**found, "proven": alone["flushes"] >= alone["acknowledged"] > 0}


def must_flush(found):
    """The same with its verdict; a side that does not flush for every write makes the comparison void."""
    found = judged(found)
    if not found["proven"]:
        raise Broken(f"fewer flushes than acknowledged writes, so the sides are not equally durable: {found}")
    return found
