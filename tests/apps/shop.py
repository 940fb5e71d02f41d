"""A publisher, a consumer, and what the first offers the second: an image in the registry, an app, a release, an entitlement."""

import hashlib
import http.client
import io
import json
import subprocess
import sys
import tarfile
import time
import uuid
from pathlib import Path

from platform_under_test import ROOT, Refused, die_with_parent
from world import wait_for_end

FAKE = ROOT / "target" / "debug" / "muster-adapter-fake"
MANIFEST = ROOT / "adapters" / "fake" / "manifest.json"
PYTHON = ROOT / "adapters" / "example-python"


def sha(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def push(server, token, path, tag):
    """The smallest image that there can be, by the registry's own protocol; its digest."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo("etc")
        info.type, info.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(info)
    layer = packed.getvalue()
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
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
        self.digest = push(server, self.token, f"{tenant_slug}.shop-{slug}/{repository}", "v1")
        artifacts = server.call("GET", f"{self.path}/artifacts", token=self.token)["items"]
        self.artifact = next(item["id"] for item in artifacts if item["digest"] == self.digest)
        for state in ("staged", "canary", "active"):
            server.call("POST", f"{self.path}/artifacts/{self.artifact}/promote",
                        {"to": state, "reason": "it is good", **({"percent": 5} if state == "canary" else {})}, token=self.token)
        server.call("POST", f"{self.path}/apps",
                    {"slug": slug, "display_name": "An app without a meaning", "audience": "everyone"}, token=self.token)
        self.version("1.0.0")

    def manifest(self, version, **changes):
        document = json.loads(self.document.read_text().replace("${base}", self.digest))
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
        """An account in the publisher's own project, which may mint tokens and nothing else."""
        account = self.server.call(
            "POST", f"{self.path}/service-accounts",
            {"name": f"adapter-{uuid.uuid4().hex[:6]}", "permissions": ["operator_token.mint", "entitlement.list"]},
            token=self.token)
        issued = self.server.call("POST", "/v1/tokens", {"name": "adapter", "service_account": account["id"]}, token=self.token)
        return issued["secret"]


class Adapter:
    """The fake as a process of its own, with the publisher's token and nothing else."""

    def __init__(self, shop, name="one", **modes):
        self.shop, self.name = shop, name
        token = shop.folder / f"adapter-{name}-{uuid.uuid4().hex[:6]}.token"
        token.write_text(shop.publisher_token())
        token.chmod(0o600)
        self.log = shop.folder / f"adapter-{name}.log"
        self.environment = {
            "PATH": "/usr/bin:/bin", "MUSTER_SERVER": f"http://127.0.0.1:{shop.server.port}", "MUSTER_TOKEN_FILE": str(token),
            "MUSTER_ADAPTER_NAME": f"fake-{name}", **modes,
        }
        self.process = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([FAKE, "run", "--lease-seconds", "5", "--look-around-seconds", "1"],
                                            env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            preexec_fn=die_with_parent)

    def stop(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


class PythonAdapter(Adapter):
    """The guide's adapter in Python, with a token of the operator's account in the consumer's project."""

    def __init__(self, shop, entitlement):
        super().__init__(shop, "python")
        self.stop()
        minted = shop.server.call("POST", f"{shop.path}/operator-tokens", {"entitlement": entitlement["id"]},
                                  token=Path(self.environment["MUSTER_TOKEN_FILE"]).read_text())
        Path(self.environment["MUSTER_TOKEN_FILE"]).write_text(minted["secret"])
        self.environment.update(PYTHONPATH=str(ROOT / "sdk" / "python"), EXAMPLE_LEASE_SECONDS="5")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([sys.executable, PYTHON / "adapter.py"], env=self.environment,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)


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
