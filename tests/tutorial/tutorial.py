"""Types every command of the tutorial, in its order and in one shell, as a reader does; and reads what the reader should read."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "runbooks")]
from document import blocks  # noqa: E402
from platform_under_test import BINARY, ROOT, die_with_parent  # noqa: E402

TUTORIAL = ROOT / "docs" / "guides" / "tutorial.md"
# Done before, where there is a network and a compiler.
BUILDS = {"make setup", "cargo build --bin muster", "make adapters", "make image"}
# Programs that keep a terminal: the beginning of the command, and the output with which they are ready.
STAYS = {"muster up --nodes 3 --data-dir": r"^try:", "MUSTER_SERVER=": r"."}
# Output that the tutorial promises: the beginning of the command, and what its output contains.
PROMISED = {
    "muster node list": r"(?s)n1.*ready.*n2.*ready.*n3.*ready",
    "apps/slurm/publish": r"slurm \S+ is active",
    "muster app list": r"slurm .*project",
    "muster entitlement grant slurm --dry-run": r"--consent",
    "muster entitlement grant slurm --dry-run -o json": r"operator_account_id",
    "muster adapter list": r"slurm-",
    "muster instance create slurm --name lab --set worker=2 --wait": r"instance.create of lab succeeded",
    "muster instance get lab": r"running",
    "muster member list lab": r"(?s)lab-controller-1.*active.*lab-worker-2.*active",
    "muster exec lab-controller-1 -- id": r"\(ada\)",
    "muster exec lab-controller-1 -- sinfo": r"main\*",
    "muster exec lab-controller-1 -- srun --nodes=2": r"(?s)(?=.*lab-worker-1)(?=.*lab-worker-2)",
    "muster exec lab-controller-1 -- sacct --format": r"2 .*ada .*COMPLETED",
    "muster exec lab-controller-1 -- cat": r"lab-worker-",
    "muster member add lab worker --gpus 1 --wait": r"member.add of \S+ succeeded",
    "muster exec lab-controller-1 -- srun --gres": r"(?s)lab-worker-3\s+\d",
    "muster member drain lab lab-worker-1": r"member.drain of lab-worker-1 succeeded",
    "muster exec lab-controller-1 -- sacct --allocations": r"COMPLETED +0:0 +lab-worker-1",
    "muster member resume lab": r"member.resume of lab-worker-1 succeeded",
    "muster events --instance lab": r"(?s)member.drained.*member.resumed",
    "muster instance decommission lab": r"instance.decommission of lab succeeded",
    "muster audit verify": r"verified: \d+ rows",
    "muster down": r"removed: cells, disks and networks of 3 node\(s\)",
}
# Output for which a reader waits, and which may come some seconds later.
AWAITED = ("muster exec lab-controller-1 -- sacct", "muster exec lab-controller-1 -- cat", "muster adapter list")
RUNNING = "muster exec lab-controller-1 -- squeue"
PATIENCE = 60


class Shell:
    """One shell in a folder that is its home: variables and the path hold from one command to the next."""

    def __init__(self, home):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MUSTER_", "XDG_"))}
        self.environment = {**environment, "HOME": home}
        self.child = subprocess.Popen(["bash", "--norc", "-o", "pipefail"], cwd=ROOT, env=self.environment, text=True, preexec_fn=die_with_parent,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def type(self, command):
        """Returns the exit code and the output."""
        self.child.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n--ended %d\\n' $?\n")
        self.child.stdin.flush()
        lines = []
        for line in self.child.stdout:
            if ended := re.fullmatch(r"--ended (\d+)\n", line):
                return int(ended[1]), "".join(lines)
            lines.append(line)
        raise AssertionError(f"the shell ended: {command}\n{''.join(lines)}")

    def close(self):
        self.child.stdin.close()
        self.child.wait(10)


class Terminal:
    """A terminal of its own, for a program that stays."""

    def __init__(self, command, ready, environment, log):
        self.log, environment = log, {**environment, "PATH": f"{Path(BINARY).parent}:{environment['PATH']}"}
        with log.open("w") as out:
            self.child = subprocess.Popen(["bash", "-c", f"exec env {command}"], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                                          stdout=out, stderr=out, preexec_fn=die_with_parent)
        until = time.monotonic() + PATIENCE
        while not re.search(ready, log.read_text(), re.M):
            assert self.child.poll() is None and time.monotonic() < until, f"{command}\n{log.read_text()}"
            time.sleep(0.1)

    def interrupt(self):
        """As Ctrl-C does."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
            self.child.wait(PATIENCE)


def expected(command):
    return PROMISED.get(max(filter(command.startswith, PROMISED), key=len, default=""), "")


def typed(shell, command, used):
    """Types a command until its output is the promised one: once, or for a while where a reader waits."""
    pattern, until = expected(command), time.monotonic() + PATIENCE
    if command == RUNNING and "drain" in used:
        pattern = r" R "
    while True:
        began = time.monotonic()
        status, output = shell.type(command)
        if status == 0 and re.search(pattern, output):
            print(f"  ok {time.monotonic() - began:5.1f} s  {command.splitlines()[0][:110]}", flush=True)
            return
        waits = command.startswith(AWAITED) or command == RUNNING
        assert waits and time.monotonic() < until, f"{command}\nended with {status}, expected {pattern!r} in:\n{output}"
        time.sleep(0.5)


def main():
    text = TUTORIAL.read_text().split("## Without root")[0]
    commands = [command.text for block in blocks(text) if block.language == "" for command in block.commands]
    missing = [start for start in PROMISED if not any(command.startswith(start) for command in commands)]
    assert not missing, f"the tutorial has no command that begins with {missing}"
    assert BUILDS <= set(commands), f"the tutorial builds otherwise: {BUILDS - set(commands)}"
    with tempfile.TemporaryDirectory(prefix="muster-tutorial-") as home:
        shell, terminals, used = Shell(home), [], set()
        try:
            for command in commands:
                if command in BUILDS:
                    continue
                if ready := next((ready for start, ready in STAYS.items() if command.startswith(start)), None):
                    terminals.append(Terminal(command, ready, shell.environment, Path(home) / f"terminal-{len(terminals)}.log"))
                    print(f"  ok          {command[:110]}", flush=True)
                    continue
                if "--nodelist=" in command:
                    used.add("drain")
                if command.startswith("muster down"):
                    for terminal in reversed(terminals):
                        terminal.interrupt()
                typed(shell, command, used)
        except BaseException:
            for terminal in terminals:
                print("\n".join(terminal.log.read_text().splitlines()[-15:]), file=sys.stderr)
            raise
        finally:
            shell.close()
    print(f"ok: {len(commands) - len(BUILDS)} commands of the tutorial")


main()
