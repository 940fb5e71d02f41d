"""Impossible requests are refused at once and in full: missing programs, and directories that no cell may have."""

import json
import subprocess

from world import BINARY

HIDDEN = ("bridge", "resize2fs", "setpriv")


def run(world):
    every_missing_program_is_named(world)
    a_certain_refusal_is_not_retried(world)


def every_missing_program_is_named(world):
    """In a mount namespace where some programs cannot be run, `muster up` names all of them and makes nothing."""
    hide = "for name in $1; do for folder in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin /sbin /bin; do " \
           "if test -e $folder/$name; then mount --bind /dev/null $folder/$name; fi; done; done; shift; exec \"$@\""
    words = ["unshare", "--mount", "--", "sh", "-c", hide, "sh", " ".join(HIDDEN), BINARY, "up", "--nodes", "1", "--data-dir", world.data]
    refused = subprocess.run(words, env=world.clean_environment(), capture_output=True, text=True, timeout=30)
    assert refused.returncode == 1 and all(f"`{name}`" in refused.stderr for name in HIDDEN), refused
    assert "apt-get install iproute2" in refused.stderr and not world.data.exists(), refused


def a_certain_refusal_is_not_retried(world):
    world.up(1)
    project = world.project()
    project.allocate("a")
    spec = json.dumps({"root": {"host": ["/usr", "/home"]}})
    refused = project.muster("cell", "create", "c", "--allocation", "a", "--spec", spec, "--wait", "--timeout", "60s")
    assert refused.returncode != 0 and "/home" in refused.stdout + refused.stderr, refused
    log = (world.data / "nodes/n1/agent.log").read_text()
    assert sum("not done" in line and "CellCreate" in line for line in log.splitlines()) == 1, log
    project.release("a")
