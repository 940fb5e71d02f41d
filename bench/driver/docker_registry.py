"""Debian's docker-registry, with its own folder, as its package configures it except for its address and authentication."""

import json
import os
import shutil

from .muster import call, free_port
from .processes import ROOT, Broken, Process, pinned, wait_for

# Unpacked by tools/setup, or installed: then it is in the path.
PROGRAM = shutil.which("docker-registry") or ROOT / ".tools/docker-registry/usr/bin/docker-registry"

# The package's own file, less its authentication: the benchmark compares pushing and pulling, and ours validates a token with
# every request all the same.
DEFAULTS = {
    "version": 0.1,
    "log": {"fields": {"service": "registry"}},
    "storage": {"cache": {"blobdescriptor": "inmemory"}, "delete": {"enabled": True}},
    "http": {"headers": {"X-Content-Type-Options": ["nosniff"]}},
    "health": {"storagedriver": {"enabled": True, "interval": "10s", "threshold": 3}},
}
# It writes two lines for each request; its documentation recommends this for more speed.
TUNED = {"log": {"level": "error", "accesslog": {"disabled": True}}}


class DockerRegistry:
    pushed = 0  # images

    def __init__(self, folder, tuned=False):
        folder.mkdir(mode=0o700)
        self.address, self.token_file, self.repository = f"127.0.0.1:{free_port()}", None, "bench/app"
        config = {**DEFAULTS, **(TUNED if tuned else {})}
        config["storage"] = {**config["storage"], "filesystem": {"rootdirectory": str(folder / "data")}}
        config["http"] = {**config["http"], "addr": self.address}
        (folder / "config.yml").write_text(json.dumps(config))  # every JSON is YAML
        command = pinned("server", [PROGRAM, "serve", folder / "config.yml"])
        env = {"PATH": os.environ["PATH"]}
        self.process = Process("docker-registry", command, env, folder / "log", cwd=folder)
        self.pid = self.process.pid

    def wait(self):
        wait_for("docker-registry's start", self.process, self._answers)
        return self

    def _answers(self):
        try:
            return call(self.address, "GET", "/v2/")[0] is not None or None
        except (OSError, Broken, json.JSONDecodeError):
            return None

    def stop(self):
        self.process.stop()
