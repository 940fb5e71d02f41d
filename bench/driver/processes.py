"""Starting programs so that none outlives the benchmark, whatever ends it."""

import os
import pathlib
import resource
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CORES = sorted(os.sched_getaffinity(0))
TICKS = 100.0  # of /proc/*/stat per second, on every Linux that we run on


class Broken(Exception):
    """Something did not work, so there is nothing to compare: the run ends with 1."""


class Process:
    """A program that runs until it is stopped. The kernel ends it with us, even if we are killed."""

    def __init__(self, name, command, env, log, cwd=None, reads_output=False):
        self.name, self.log = name, pathlib.Path(log)
        with self.log.open("ab") as output:
            self.child = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", "--", *map(str, command)], env=env, cwd=cwd,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE if reads_output else output, stderr=output,
                start_new_session=True, text=True)
        self.pid = self.child.pid  # setpriv becomes the program, so the number stays

    def check(self):
        if self.child.poll() is not None:
            raise Broken(f"{self.name} ended by itself ({self.child.returncode}):\n{self.last_words()}")

    def last_words(self):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def stop(self, ask=signal.SIGTERM):
        if self.child.stdin:
            self.child.stdin.close()
        for wanted, patience in ((ask, 20), (signal.SIGKILL, 10)):
            if self.child.poll() is not None:
                break
            self.child.send_signal(wanted)
            try:
                self.child.wait(patience)
            except subprocess.TimeoutExpired:
                continue
        if self.child.stdout:
            self.child.stdout.close()


def pinned(role, command):
    """The same command on a core of its own: the generator on the first, the server on the second; on one core, as it is."""
    if len(CORES) < 2:
        return command
    return ["taskset", "--cpu-list", CORES[{"generator": 0, "server": 1}[role]], *command]


def output_of(command, timeout=120, **options):
    """Runs a program to its end and returns its output; a failure of the program breaks the run."""
    command = list(map(str, command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, **options)
    except subprocess.TimeoutExpired:
        raise Broken(f"{command[0]} did not end within {timeout} s") from None
    if done.returncode != 0:
        raise Broken(f"{' '.join(command)} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return done.stdout


def wait_for(what, process, ready, timeout=60.0, pause=0.05):
    """Polls `ready` until it returns something other than None."""
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        answer = ready()
        if answer is not None:
            return answer
        process.check()
        time.sleep(pause)
    raise Broken(f"{what} took longer than {timeout:.0f} s:\n{process.last_words()}")


def children(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def family(pid):
    """A process and everything below it."""
    return [pid, *(below for child in children(pid) for below in family(child))]


def cpu_seconds(pid, with_ended_children=False):
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15 if with_ended_children else 13])) / TICKS


def own_cpu_seconds():
    """Processor time of this process and its finished children, generators included."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return total


def machine_cpu_seconds():
    """How long all processors were busy, and how long they were given to other machines."""
    words = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    user, nice, system, _idle, _wait, irq, soft, steal = (int(word) / TICKS for word in words[:8])
    return user + nice + system + irq + soft, steal
