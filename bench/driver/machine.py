"""The facts about the machine that a reader needs to interpret a number, and nothing that names it."""

import datetime
import os
import pathlib
import platform
import re
import signal
import sqlite3
import subprocess

from .processes import ROOT

LOAD_LIMIT = 0.5  # above it other programs are running


def first_line(command):
    try:
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=60, cwd=ROOT)
    except (OSError, subprocess.TimeoutExpired):
        return "absent"
    return (done.stdout.strip().splitlines() or ["unknown"])[0]


def kind_of_disk(folder):
    return first_line(["findmnt", "-no", "FSTYPE", "-T", folder])


def cpu_model():
    text = pathlib.Path("/proc/cpuinfo").read_text()
    found = re.search(r"^model name\s*:\s*(.*)$", text, re.M)
    return found[1] if found else platform.machine()


def memory_gib():
    kib = int(re.search(r"^MemTotal:\s*(\d+)", pathlib.Path("/proc/meminfo").read_text(), re.M)[1])
    return round(kib / 1024 / 1024)


def facts(tmp):
    return {
        "started_at": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "cpu": cpu_model(),
        "memory_gib": memory_gib(),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "filesystem": kind_of_disk(tmp),
        "loadavg_at_start": os.getloadavg()[0],
    }


def versions(binary, dstack):
    return {
        "muster": first_line([binary, "--version"]),
        "commit": first_line(["git", "describe", "--always", "--dirty", "--abbrev=12"]),
        "rustc": first_line(["rustc", "--version"]),
        "sqlite (raw side)": sqlite3.sqlite_version,
        "python": platform.python_version(),
        "strace": first_line(["strace", "--version"]),
        "dstack": first_line([dstack, "--version"]),
    }


def noise_at_start(found):
    """Why numbers of this run mean little, as sentences; none is best."""
    reasons = []
    if found["loadavg_at_start"] > LOAD_LIMIT:
        reasons.append(f"load average {found['loadavg_at_start']:.2f} at the start, more than {LOAD_LIMIT}")
    if found["filesystem"] in ("tmpfs", "ramfs", "overlay"):
        reasons.append(f"the data is on {found['filesystem']}, where a flush may cost nothing: set TMPDIR to a real disk")
    return reasons


def set_alarm(seconds, act):
    """Calls `act` when the time is up. No run is endless."""
    signal.signal(signal.SIGALRM, lambda _number, _frame: act())
    signal.alarm(int(seconds))
