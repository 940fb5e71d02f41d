"""A publisher, a consumer, and what the first offers the second: an image in the registry, an app, a release, an entitlement."""

import hashlib
import http.client
import io
import json
import sys
import tarfile
import time
import uuid
from pathlib import Path

from adapter_process import keep_token, publisher_token, start_adapter, stop_adapter
from platform_under_test import ROOT, Refused
from world import wait_for_end

FAKE = ROOT / "target" / "debug" / "muster-adapter-fake"
MANIFEST = ROOT / "adapters" / "fake" / "manifest.json"
PYTHON = ROOT / "adapters" / "example-python"


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def push(server, token, path, tag):
    """The smallest image that there can be, by the registry's own protocol; its digest, another one for each tag."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo("etc")
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(info)
    layer = packed.getvalue()
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Labels": {"tag": tag}},
                         "rootfs": {"type": "layers", "diff_ids": [sha(layer)]}}).encode()
    manifest = json.dumps({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", "digest": sha(config), "size": len(config)},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": sha(layer), "size": len(layer)}],
    }).encode()

    def send(method, where, data, kind="application/octet-stream"):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.request(method, where, data, {"Authorization": f"Bearer {token}", "Content-Type": kind})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        assert answer.status in (201, 202), (answer.status, text)

    for blob in (config, layer):
        send("POST", f"/v2/{path}/blobs/uploads/?digest={sha(blob)}", blob)
    send("PUT", f"/v2/{path}/manifests/{tag}", manifest, "application/vnd.oci.image.manifest.v1+json")
    return sha(manifest)


class Shop:
    """An app that a project publishes, and another project that uses it."""

    def __init__(self, server, tenant, folder, slug="fake", document=MANIFEST):
        self.server, self.tenant, self.folder, self.slug = server, tenant, Path(folder), slug
        self.document = document
        self.token = tenant.token
        tenant_slug = server.call("GET", f"/v1/tenants/{tenant.tenant['id']}", token=self.token)["slug"]
        made = server.call("POST", f"/v1/tenants/{tenant.tenant['id']}/projects", {"name": f"shop-{slug}"}, token=self.token)
        self.publisher, self.consumer = made["id"], tenant.project["id"]
        self.path = f"/v1/projects/{self.publisher}"
        server.call("PATCH", f"{self.path}/trust-policy", {"unsigned_up_to": "active"}, token=self.token)
        repository = json.loads(document.read_text())["artifacts"][0]["repository"]
        self.repository = f"{tenant_slug}.shop-{slug}/{repository}"
        self.digest = self.image("v1")
        server.call("POST", f"{self.path}/apps",
                    {"slug": slug, "display_name": "An app without a meaning", "audience": "everyone"}, token=self.token)
        self.version("1.0.0")

    def image(self, tag):
        """Another image, active; its digest."""
        digest = push(self.server, self.token, self.repository, tag)
        artifacts = self.server.call("GET", f"{self.path}/artifacts", token=self.token)["items"]
        artifact = next(item["id"] for item in artifacts if item["digest"] == digest)
        for state in ("staged", "canary", "active"):
            self.server.call("POST", f"{self.path}/artifacts/{artifact}/promote",
                             {"to": state, "reason": "it is good", **({"percent": 5} if state == "canary" else {})}, token=self.token)
        return digest

    def manifest(self, version, digest=None, **changes):
        document = json.loads(self.document.read_text().replace("${base}", digest or self.digest))
        document.update({"app": self.slug, "version": version, **changes})
        for component in document["components"]:
            for checks in component["witnesses"].values():
                for check in checks:
                    check["within"] = "3s"
        return document

    def version(self, name, **changes):
        versions = f"{self.path}/apps/{self.slug}/versions"
        published = self.server.call("POST", versions, {"manifest": self.manifest(name, **changes)}, token=self.token)
        for state in ("staged", "canary", "active"):
            self.server.call("POST", f"{versions}/{name}/promote",
                             {"to": state, "reason": "it is good", **({"percent": 5} if state == "canary" else {})},
                             token=self.token)
        return published["app_version"]

    def entitle(self):
        base = f"/v1/projects/{self.consumer}/entitlements"
        shown = self.server.call("POST", base, {"app": self.slug, "dry_run": True}, token=self.token)
        granted = self.server.call("POST", base, {"app": self.slug, "consent": shown["permissions"]}, token=self.token)
        return granted["entitlement"]

    def publisher_token(self):
        return publisher_token(self.server, self.publisher, self.token)


class Adapter:
    """The fake as a process of its own, with the publisher's token and nothing else."""

    command = (FAKE, "run", "--lease-seconds", "5", "--look-around-seconds", "1")

    def __init__(self, shop, name="one", **modes):
        self.shop, self.name, self.modes = shop, name, modes
        self.token = keep_token(shop.folder / f"adapter-{name}-{uuid.uuid4().hex[:6]}.token", self.secret())
        self.log = shop.folder / f"adapter-{name}.log"
        self.process = None
        self.start()

    def secret(self):
        return self.shop.publisher_token()

    def start(self):
        self.process = start_adapter(self.command, f"http://127.0.0.1:{self.shop.server.port}", self.token, f"fake-{self.name}",
                                     self.log, self.modes)

    def stop(self):
        stop_adapter(self.process)


class PythonAdapter(Adapter):
    """The guide's adapter in Python, with a token of the operator's account in the consumer's project."""

    command = (sys.executable, PYTHON / "adapter.py")

    def __init__(self, shop, entitlement):
        self.entitlement = entitlement
        super().__init__(shop, "python", PYTHONPATH=str(ROOT / "sdk" / "python"), EXAMPLE_LEASE_SECONDS="5")

    def secret(self):
        minted = self.shop.server.call("POST", f"{self.shop.path}/operator-tokens", {"entitlement": self.entitlement["id"]},
                                       token=super().secret())
        return minted["secret"]


class Instance:
    """One instance of the app in the consumer's project."""

    def __init__(self, shop, name):
        self.shop, self.name, self.server, self.token = shop, name, shop.server, shop.token
        self.base = f"/v1/projects/{shop.consumer}/app-instances"
        self.path = f"{self.base}/{name}"

    def create(self, units=1, **body):
        components = [{"component_key": "unit", "count": units}]
        asked = {"name": self.name, "app": self.shop.slug, "components": components, **body}
        return self.server.call("POST", self.base, asked, token=self.token)["operation"]

    def launched(self, units=1, **body):
        ended = self.end(self.create(units, **body))
        assert ended["state"] == "succeeded", json.dumps(ended, indent=1)
        return ended

    def act(self, verb, **body):
        return self.server.call("POST", f"{self.path}/{verb}", body, token=self.token)["operation"]

    def member(self, verb, **body):
        return self.act(f"member-operations/{verb}", **body)

    def end(self, operation, seconds=60):
        return wait_for_end(self.server, operation["id"], self.token, seconds)

    def get(self):
        return self.server.call("GET", self.path, token=self.token)

    def members(self, **query):
        words = "&".join(f"{key}={value}" for key, value in {"page_size": 200, **query}.items())
        return self.server.call("GET", f"{self.path}/members?{words}", token=self.token)["items"]

    def images(self):
        """The images of its members' cells, by their digests."""
        cells = f"/v1/projects/{self.shop.consumer}/cells"
        return {self.server.call("GET", f"{cells}/{member['cell_id']}", token=self.token)["spec"]["root"]["image"]
                for member in self.members()}

    def component(self, key):
        return next(c for c in self.get()["topology"]["components"] if c["component_key"] == key)

    def refused(self, verb, code, **body):
        try:
            self.member(verb, **body)
        except Refused as refused:
            assert refused.problem["code"] == code, refused.problem
            return refused.problem
        raise AssertionError(f"{verb} was not refused")


def until(what, question, seconds=30):
    deadline = time.time() + seconds
    while time.time() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.1)
    raise AssertionError(f"it never came to this: {what}")
