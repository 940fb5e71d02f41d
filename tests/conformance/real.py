"""A platform with real cells on this machine; the image comes from an OCI layout."""

import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "cells")]
import snapshot  # noqa: E402
from adapter_process import publisher_token  # noqa: E402
from partition import cut  # noqa: E402
from world import World, eventually  # noqa: E402


def processes(cell):
    """The processes of a cell, as the machine has them: number, and number inside."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and cell in (folder / "cgroup").read_text():
                inside = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("NSpid:"))
                yield int(folder.name), int(inside.split()[-1])
        except (FileNotFoundError, ProcessLookupError):
            continue


class Real:
    """The suite's interface to a world with a published and entitled app."""

    def __init__(self, world, manifest, slug):
        self.world, self.manifest, self.slug = world, manifest, slug
        self.folder, self.server = world.folder, world.server
        self.token, self.consumer = world.at.tokens["tenant_admin"], world.at.project["id"]
        self.path = f"/v1/projects/{self.consumer}"

    def publisher_token(self):
        return publisher_token(self.server, self.consumer, self.token)

    def operator_token(self, publisher):
        held = self.server.call("GET", f"{self.path}/entitlements", token=self.token)["items"]
        found = next(e for e in held if e.get("app") in (None, self.slug))
        return self.server.call("POST", f"{self.path}/operator-tokens", {"entitlement": found["id"]}, token=publisher)["secret"]

    @contextlib.contextmanager
    def cut(self, node):
        with cut(self.world, node, "link"):
            yield

    def kill_cell(self, cell):
        """Its first process, and nothing else: the kernel ends the others."""
        first = [pid for pid, inside in processes(cell) if inside == 1]
        assert len(first) == 1, f"{cell} has {first}"
        os.kill(first[0], signal.SIGKILL)

    def nothing_left(self):
        for file in sorted(self.world.data.glob("nodes/*/node.json")):
            self.world.audit(file.parent.name)


class Platform(Real):
    """One of its own, and the machine as before when it is gone."""

    def __init__(self, folder, manifest, layout):
        if layout is None:
            sys.exit("tests/conformance/run: with --cells real, --layout says where the image is (an OCI layout)")
        self.before = snapshot.take()
        world = World()
        try:
            world.up(4, "--nodes-heartbeat-seconds", "2")
            world.at = world.project()
            document = json.loads(Path(manifest).read_text())
            super().__init__(world, self.publish(world, document, layout), document["app"])
        except BaseException:
            world.close()
            raise

    def publish(self, world, document, layout):
        """Pushes the image, and publishes the release with its digest."""
        at, slug = world.at, document["app"]
        project, token = f"/v1/projects/{at.project['id']}", at.tokens["tenant_admin"]
        world.server.call("PATCH", f"{project}/trust-policy", {"unsigned_up_to": "active"}, token=token)
        repository = document["artifacts"][0]["repository"]
        at.said("artifact", "push", str(layout), f"{repository}:1.0.0")
        digest = json.loads(at.said("-o", "json", "artifact", "get", f"{repository}:1.0.0"))["digest"]
        document = json.loads(re.sub(r"\$\{[^}]*\}", digest, json.dumps(document)))
        document.update(version="1.0.0", reconcile_seconds=10)
        at.said("app", "create", slug, "--display-name", slug)
        release = world.folder / "release.json"
        release.write_text(json.dumps(document))
        at.said("app-version", "publish", slug, "--file", str(release))
        for state in ("staged", "canary", "active"):
            at.said("artifact", "promote", f"{repository}@{digest}", "--to", state, "--reason", "conformance")
        for state in ("staged", "canary", "active"):
            at.said("app-version", "promote", slug, "1.0.0", "--to", state, "--reason", "conformance")
        shown = json.loads(at.said("-o", "json", "entitlement", "grant", slug, "--dry-run"))
        at.said("entitlement", "grant", slug, *[word for p in shown["permissions"] for word in ("--consent", p)])
        return document

    def close(self):
        self.world.close()
        eventually(self.as_before, seconds=10)

    def as_before(self):
        left = snapshot.difference(self.before, snapshot.take())
        assert not left, "left behind:\n" + "\n".join(left)
