"""The adapter under test, as a process: any program in any language, which knows the platform by two variables."""

import os
import signal
import subprocess
import threading
import uuid
from pathlib import Path

from adapter_process import start_adapter


class Adapter:
    """One name, one token, and as many processes one after another as the suite kills."""

    def __init__(self, command, platform, wire, tokens="publisher"):
        self.command, self.platform, self.wire, self.tokens = command, platform, wire, tokens
        self.log = Path(platform.folder) / "conformance-adapter.log"
        self.token = Path(platform.folder) / f"conformance-{uuid.uuid4().hex[:6]}.token"
        self.token.touch(0o600)
        self.publisher = platform.publisher_token()
        self.renew()
        self.process, self.stopped, self.deaths, self.over = None, [], 0, threading.Event()
        wire.killer, wire.stopper = self.killed, self.turned_ghost
        # A child ends with the thread that started it, not with the process: so one long-lived thread starts them all.
        self.wanted, self.started = threading.Semaphore(0), threading.Semaphore(0)
        threading.Thread(target=self.keep_starting, daemon=True).start()
        if tokens == "operator":
            threading.Thread(target=self.keep_renewing, daemon=True).start()
        self.start()

    def renew(self):
        """A publisher's token lasts; one of an operator account is for minutes, and is replaced in its file."""
        if self.tokens == "operator":
            secret = self.platform.operator_token(self.publisher)
            fresh = self.token.with_suffix(".new")
            fresh.touch(0o600)
            fresh.write_text(secret)
            fresh.rename(self.token)
        else:
            self.token.write_text(self.publisher)

    def keep_renewing(self):
        while not self.over.wait(240):
            self.renew()

    def start(self):
        self.wanted.release()
        self.started.acquire()

    def keep_starting(self):
        while self.wanted.acquire() and not self.over.is_set():
            self.launch()
            self.started.release()

    def launch(self):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        self.process = start_adapter(self.command, f"http://127.0.0.1:{self.wire.port}", self.token,
                                     f"conformance-{uuid.uuid4().hex[:6]}", self.log, kept)

    def killed(self):
        """kill -9, and another one is started at once, as a service manager does."""
        self.process.kill()
        self.process.wait()
        self.wire.hang_up()
        self.deaths += 1
        if not self.over.is_set():
            self.start()

    def turned_ghost(self):
        """It stands still with its request on the wire, and another one takes over."""
        self.process.send_signal(signal.SIGSTOP)
        self.stopped.append(self.process)
        self.deaths += 1
        self.start()

    def lay(self):
        """Lets the stale processes continue for a moment, and then ends them."""
        for stale_copy in self.stopped:
            stale_copy.send_signal(signal.SIGCONT)
        for stale_copy in self.stopped:
            try:
                stale_copy.wait(1)
            except subprocess.TimeoutExpired:
                stale_copy.kill()
                stale_copy.wait()
        self.stopped = []

    def alive(self):
        return self.process.poll() is None

    def stop(self):
        self.over.set()
        for process in [*self.stopped, self.process]:
            process.kill()
            process.wait()

    def said(self):
        return self.log.read_text(errors="replace")[-3000:]
