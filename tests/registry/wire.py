"""The distribution protocol by hand, with nothing but Python's own HTTP: the test shares no code with the registry."""

import base64
import hashlib
import http.client
import json
import time
from dataclasses import dataclass

IMAGE = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"
EMPTY = "application/vnd.oci.empty.v1+json"
DOCKER = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
BYTES = "application/octet-stream"


def sha256(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def descriptor(media_type, data, **more):
    return {"mediaType": media_type, "digest": sha256(data), "size": len(data), **more}


def written(document):
    return json.dumps(document, separators=(",", ":")).encode()


def config_of(layers, architecture="amd64", **more):
    """An image's config; unique through its extra fields."""
    return written({
        "architecture": architecture, "os": "linux", "created": "2026-01-01T00:00:00Z",
        "config": {"Cmd": ["/bin/true"], "User": "1000"}, **more,
        "rootfs": {"type": "layers", "diff_ids": [sha256(layer) for layer in layers]},
    })


def manifest_of(config, layers, **more):
    return written({
        "schemaVersion": 2, "mediaType": IMAGE, "config": descriptor(CONFIG, config),
        "layers": [descriptor(LAYER, layer) for layer in layers], **more,
    })


@dataclass
class Answer:
    status: int
    headers: dict
    body: bytes
    seconds: float = 0.0

    def json(self):
        return json.loads(self.body)

    def codes(self):
        """The codes of a refusal's body."""
        return [error["code"] for error in self.json()["errors"]]

    def __str__(self):
        return f"{self.status} {self.headers} {self.body[:500]!r}"


class Wire:
    """A client of a server's registry. One connection, kept while it lasts; after a rejected request with a body
    it opens another, unless it is to be kept: unread bodies have their own check."""

    def __init__(self, port, token=None, basic=False, user="anybody", keep=False, timeout=60):
        self.port, self.timeout, self.keep, self.connection = port, timeout, keep, None
        self.sent = {}
        if token and basic:
            self.sent["Authorization"] = "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()
        elif token:
            self.sent["Authorization"] = f"Bearer {token}"

    def ask(self, method, path, body=None, headers=None, **more):
        """One request; `path` begins after /v2/ unless it is whole."""
        path = path if path.startswith("/") else f"/v2/{path}"
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        begun = time.perf_counter()
        try:
            self.connection.request(method, path, body, {**self.sent, **(headers or {})}, **more)
            answer = self.connection.getresponse()
            got = Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        got.seconds = time.perf_counter() - begun
        if answer.will_close or (got.status >= 400 and body is not None and not self.keep):
            self.close()
        return got

    def expect(self, status, method, path, body=None, headers=None, **more):
        """The same, with the only status that is right."""
        got = self.ask(method, path, body, headers, **more)
        expected = status if isinstance(status, tuple) else (status,)
        assert got.status in expected, f"{method} {path} {headers or ''}: expected {status}, got {got}"
        return got

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    # The requests of a push.

    def start(self, name, query=""):
        """A new upload's location."""
        got = self.expect(202, "POST", f"{name}/blobs/uploads/{query}")
        assert got.headers["location"].startswith(f"/v2/{name}/blobs/uploads/"), got
        return got.headers["location"]

    def blob(self, name, data, digest=None):
        """Pushes a blob in one request; gives its digest."""
        digest = digest or sha256(data)
        self.expect(201, "POST", f"{name}/blobs/uploads/?digest={digest}", data, {"Content-Type": BYTES})
        return digest

    def patch(self, location, data, start=None):
        headers = {"Content-Type": BYTES}
        if start is not None:
            headers["Content-Range"] = f"{start}-{start + len(data) - 1}"
        return self.ask("PATCH", location, data, headers)

    def finish(self, location, digest, data=b""):
        return self.ask("PUT", f"{location}?digest={digest}", data, {"Content-Type": BYTES})

    def manifest(self, name, reference, data, media_type=IMAGE):
        """Pushes a manifest; gives its digest."""
        got = self.expect(201, "PUT", f"{name}/manifests/{reference}", data, {"Content-Type": media_type})
        assert got.headers["docker-content-digest"] == sha256(data), got
        return sha256(data)

    def image(self, name, tag, layers, **more):
        """Pushes a whole image; gives the digest of its manifest, and the manifest."""
        config = config_of(layers, **more)
        for data in (config, *layers):
            self.blob(name, data)
        manifest = manifest_of(config, layers)
        return self.manifest(name, tag, manifest), manifest

    def whole(self, name, reference, known=None):
        """Pulls a manifest and every blob of it, and hashes all; returns the differences. Known content is not pulled again."""
        got = self.ask("GET", f"{name}/manifests/{reference}")
        if got.status != 200:
            return [f"{name}@{reference}: {got}"]
        faults = [] if sha256(got.body) == got.headers["docker-content-digest"] else [f"{reference} has another digest"]
        document, known = got.json(), set() if known is None else known
        for part in [document["config"], *document["layers"]]:
            if (name, part["digest"]) in known:
                continue
            blob = self.ask("GET", f"{name}/blobs/{part['digest']}")
            if blob.status != 200 or sha256(blob.body) != part["digest"]:
                faults.append(f"{name} {part['digest']}: {blob.status}, {len(blob.body)} of {part['size']} bytes")
            known.add((name, part["digest"]))
        return faults
