"""A server and the agent of its only node, managed by the test: as in `muster up`, but without a supervisor."""

import os
import resource
import shutil
import signal
import subprocess
import time
from pathlib import Path

from platform_under_test import die_with_parent
from world import eventually

READY = "the server accepted this node"


class OwnAgent:
    """They are started as `muster up --nodes 1` starts them, which is read off its processes; then it is stopped."""

    def __init__(self, world, *words):
        self.world, self.server, self.process, self.endings = world, None, None, []
        world.up(1, *words)
        self.server_words, self.words = command_line(world, "server"), command_line(world, "agent")
        run = Path(self.words[self.words.index("--run-dir") + 1])
        self.log = world.data / "nodes" / run.name / "agent.log"
        self.inside = ["nsenter", f"--net={run.parent / 'net' / run.name}", "--"]
        world.stop()

    def __enter__(self):
        self.server = subprocess.Popen(
            self.server_words, env=self.world.clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)
        try:
            eventually(self.server_is_ready)
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            self.end()
        self.server.stdin.close()
        self.server.wait(30)

    def server_is_ready(self):
        try:
            assert self.world.server.request("GET", "/readyz", token="")[0] == 200
        except OSError as error:
            raise AssertionError(error) from error

    def start(self, kill_at="", under=()):
        """Starts the agent, and waits until the server has taken it up or it has ended."""
        environment = {**self.world.clean_environment(), "NO_COLOR": "1", "MUSTER_AGENT_KILL_AT": kill_at}
        said = self.log.read_text().count(READY)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [*self.inside, *under, *self.words], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=prepare)
        until = time.monotonic() + 20
        while self.process.poll() is None and self.log.read_text().count(READY) == said:
            assert time.monotonic() < until, f"the agent is not taken up: {self.world.logs()}"
            time.sleep(0.02)

    def refusal(self, kill_at):
        """Returns the agent's error when it does not start with that."""
        self.end()
        environment = {**self.world.clean_environment(), "MUSTER_AGENT_KILL_AT": kill_at}
        words = [*self.inside, *self.words]
        refused = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=20)
        assert refused.returncode != 0, refused
        self.start()
        return refused.stderr

    def end(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(30)

    def tend(self):
        """If the agent has ended, records how, and restarts it without the kill point."""
        if self.process.poll() is not None:
            self.endings.append(self.process.returncode)
            self.start()


def prepare():
    """In the child: an abort leaves no file behind."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    die_with_parent()


def command_line(world, verb):
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = [os.fsdecode(word) for word in (folder / "cmdline").read_bytes().split(b"\0")[:-1]]
            except OSError:  # it ended meanwhile
                continue
            if words[1:2] == [verb] and str(world.data) in " ".join(words):
                return [shutil.which(words[0]) or words[0], *words[1:]]
    raise AssertionError(f"`muster up` runs no `muster {verb}`")
