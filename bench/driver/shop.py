"""An app in the catalog, projects that run instances of it, and the adapter that serves them: all through the public API.

The app is the least that has everything: one component, an adapter that carries each step out at once, and for each transition
one witness that the platform runs through the node where the member is.
"""

import hashlib
import http.client
import io
import json
import os
import secrets
import tarfile

from .muster import call, make_tenant
from .processes import ROOT, TARGET, Broken, Process, output_of

ADAPTER = TARGET / "release/muster-adapter-fake"
SLUG = "bench"
UNIT = "unit"
CHECK = {"in": "self", "exec": ["/bin/true"], "expect": {"exit": 0}, "within": "30s"}
# States of a release before it is offered.
STATES = ({"to": "staged"}, {"to": "canary", "percent": 5}, {"to": "active"})
IMAGE_INDEX = "application/vnd.oci.image.manifest.v1+json"


def build():
    # A workspace of its own, with the same target folder.
    output_of(["cargo", "build", "--release", "--locked", "--quiet", "--bin", ADAPTER.name], timeout=3600,
              cwd=ROOT / "adapters", env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)})


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def push(server, token, repository):
    """The smallest image that there can be; its digest."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        folder = tarfile.TarInfo("etc")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(folder)
    layer = packed.getvalue()
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                         "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}).encode()
    part = lambda kind, data: {"mediaType": f"application/vnd.oci.image.{kind}", "digest": digest(data), "size": len(data)}
    manifest = json.dumps({"schemaVersion": 2, "mediaType": IMAGE_INDEX, "config": part("config.v1+json", config),
                           "layers": [part("layer.v1.tar", layer)]}).encode()

    def send(method, path, data, kind="application/octet-stream"):
        connection = http.client.HTTPConnection(server.address, timeout=30)
        connection.request(method, path, data, {"Authorization": f"Bearer {token}", "Content-Type": kind})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status not in (201, 202):
            raise Broken(f"{method} {path} was answered with {answer.status}: {text[:500]}")

    for blob in (config, layer):
        send("POST", f"/v2/{repository}/blobs/uploads/?digest={digest(blob)}", blob)
    send("PUT", f"/v2/{repository}/manifests/v1", manifest, IMAGE_INDEX)
    return digest(manifest)


def release(image, reconcile_seconds):
    """The manifest of the app."""
    return {
        "app": SLUG, "version": "1.0.0", "artifact_kind": "oci",
        "artifacts": [{"name": "base", "repository": "base", "digest": image}],
        "compatibility": {"requires_capacity_shape": ["baremetal", "gpu_slice"]},
        "components": [{
            "key": UNIT, "count": {"min": 0, "max": 10_000, "default": 1},
            "capacity": {"gpus": 0, "cpus": 1, "memory_mb": 256, "disk_mb": 256}, "reach": "none",
            "runtime": {"root": {"artifact": "base"}},
            "witnesses": {"active": [CHECK], "drained": [CHECK], "removed": [CHECK]},
        }],
        "permissions": [], "operations": ["add", "drain", "resume", "remove"], "reconcile_seconds": reconcile_seconds,
    }


class Consumer:
    """A project that is entitled to the app, and its actors."""

    def __init__(self, server, slug):
        self.server, self.slug = server, slug
        self.token, _, self.project = make_tenant(server, slug, 1).split(" ")
        self.base = f"/v1/projects/{self.project}"
        consent = self.post("/entitlements", {"app": SLUG, "dry_run": True})["permissions"]
        self.post("/entitlements", {"app": SLUG, "consent": consent})

    def post(self, path, body):
        return call(self.server.address, "POST", self.base + path, body, self.token)[0]

    def get(self, path):
        return call(self.server.address, "GET", path, token=self.token)[0]

    def ended(self, operation, seconds=600):
        """Waits until it has succeeded."""
        while operation["state"] != "succeeded":
            if operation["state"] not in ("accepted", "running", "verifying"):
                raise Broken(f"{operation['kind']} is {operation['state']}: {json.dumps(operation)[:1500]}")
            operation = self.get(f"/v1/operations/{operation['id']}?wait_seconds=20")
        return operation

    def allocate(self, name, cpus):
        """Creates an allocation for members, with room for this many."""
        asked = {"name": name, "gpus": 0, "cpus": cpus, "memory_mb": cpus * 256, "disk_mb": cpus * 256}
        self.ended(self.post("/allocations", asked)["operation"])

    def launch(self, name, units, allocation):
        """Requests an instance."""
        component = {"component_key": UNIT, "count": units, "allocation": allocation}
        return self.post("/app-instances", {"name": name, "app": SLUG, "components": [component]})["operation"]


class Shop:
    """The publisher of the app."""

    def __init__(self, server, reconcile_seconds=3600):
        self.server = server
        self.token, slug, self.project = make_tenant(server, "publisher", 1).split(" ")
        ask = lambda method, path, body: call(server.address, method, f"/v1/projects/{self.project}{path}", body, self.token,
                                              {"If-Match": "*"})[0]
        post = lambda path, body: ask("POST", path, body)
        ask("PATCH", "/trust-policy", {"unsigned_up_to": "active"})
        image = push(server, self.token, f"{slug}.p0/base")
        artifacts, _ = call(server.address, "GET", f"/v1/projects/{self.project}/artifacts", token=self.token)
        artifact = next(item["id"] for item in artifacts["items"] if item["digest"] == image)
        for state in STATES:
            post(f"/artifacts/{artifact}/promote", {**state, "reason": "it is measured"})
        post("/apps", {"slug": SLUG, "display_name": "An app to measure with", "audience": "everyone"})
        post(f"/apps/{SLUG}/versions", {"manifest": release(image, reconcile_seconds)})
        for state in STATES:
            post(f"/apps/{SLUG}/versions/1.0.0/promote", {**state, "reason": "it is measured"})
        account = post("/service-accounts", {"name": "adapter", "permissions": ["operator_token.mint", "entitlement.list"]})
        issued, _ = call(server.address, "POST", "/v1/tokens", {"name": "adapter", "service_account": account["id"]}, self.token)
        self.secret = issued["secret"]


class Adapter:
    """A process of its own that leases the steps of all consumers over the public API, many at once, and ends each at once."""

    def __init__(self, bench, shop):
        token = bench.tmp / f"adapter-{secrets.token_hex(4)}.token"
        with open(token, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
            out.write(shop.secret)
        # The fake that reports success for everything: an adapter's real work is not part of this measurement.
        env = {"PATH": os.environ["PATH"], "MUSTER_SERVER": f"http://{shop.server.address}", "MUSTER_TOKEN_FILE": str(token),
               "MUSTER_ADAPTER_NAME": "bench", "MUSTER_LOG": "warn", "FAKE_LIE": "*"}
        command = [ADAPTER, "run", "--look-around-seconds", "1"]
        self.process = Process("the adapter", command, env, bench.tmp / "adapter.log")
        self.pid = self.process.pid

    def stop(self):
        self.process.stop()
