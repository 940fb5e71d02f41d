"""Other registries: Debian's own, and a lying one. Referenced content is read by digest, and nothing else of them is trusted."""

import http.server
import json
import os
import shutil
import subprocess
import threading
import time

from clients import Tools
from image import make
from platform_under_test import ROOT, Refused, die_with_parent, free_port
from wire import CONFIG, IMAGE, LAYER, Wire, config_of, descriptor, manifest_of, sha256, written
from world import World

# Installed, or unpacked by tools/setup.
PROGRAM = shutil.which("docker-registry") or str(ROOT / ".tools/docker-registry/usr/bin/docker-registry")
USER, PASSWORD = "reader", "let me in"
# The same by bcrypt, the only way in which docker-registry takes it.
HASHED = "$2b$04$musterregistrytestsaleq/Qgmqgx3J82sO1zNZMXZ4ERWCLjYhG"


class Distribution:
    """docker-registry, which requires a password."""

    def __init__(self, folder):
        self.folder, self.port, self.process = folder, free_port(), None
        self.folder.mkdir()
        (folder / "htpasswd").write_text(f"{USER}:{HASHED}\n")
        (folder / "config.yml").write_text(json.dumps({
            "version": "0.1", "log": {"level": "error"}, "http": {"addr": f"127.0.0.1:{self.port}", "secret": "x"},
            "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
            "auth": {"htpasswd": {"realm": "elsewhere", "path": str(folder / "htpasswd")}}}))

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "serve", str(self.folder / "config.yml")], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                preexec_fn=die_with_parent)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            try:
                if Wire(self.port).ask("GET", "/v2/").status == 401:
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError((self.folder / "log").read_text())

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def file(self, digest):
        return self.folder / "storage/docker/registry/v2/blobs/sha256" / digest[7:9] / digest[7:] / "data"


class Liar:
    """A registry with scripted responses that records its requests."""

    def __init__(self):
        liar = self
        self.says, self.asked, self.closed = {}, [], set()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"

            def do_GET(self):  # noqa: N802
                liar.asked.append((self.path, self.headers.get("Authorization")))
                status, headers, body = liar.says.get(self.path, (404, {}, [b"{}"]))
                if any(name in self.path for name in liar.closed) and not self.headers.get("Authorization"):
                    status, headers, body = 401, {"WWW-Authenticate": 'Basic realm="liar"'}, []
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                try:
                    for part in body:
                        self.wfile.write(part)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def image(self, name, layers, blobs):
        """Has a manifest of these layers (as descriptors), its config, and these blobs; gives its digest."""
        config = config_of([])
        manifest = written({"schemaVersion": 2, "mediaType": IMAGE, "config": descriptor(CONFIG, config), "layers": layers})
        self.says[f"/v2/{name}/manifests/{sha256(manifest)}"] = (200, {"Content-Type": IMAGE}, [manifest])
        for data in (config, *blobs):
            self.says[f"/v2/{name}/blobs/{sha256(data)}"] = (200, {}, [data])
        return sha256(manifest)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


class Site:
    """Everything that a check here needs."""

    def __init__(self, folder, world):
        self.world, self.ours, self.wire = world, world.ours, world.ours.wire()
        self.tools = Tools(folder, world)
        self.elsewhere = Distribution(folder / "elsewhere")
        self.elsewhere.start()
        self.liar = Liar()
        make(folder / "layout")
        self.folder = folder
        there = f"127.0.0.1:{self.elsewhere.port}"
        for name, password, registry in (("reader", PASSWORD, there), ("wrong", "something else", there),
                                         ("for-liar", PASSWORD, f"127.0.0.1:{self.liar.port}")):
            self.ours.call("POST", "secrets", {"name": name, "value": f"{USER}:{password}", "registry": registry})

    def push(self, name):
        """Pushes the tests' image to docker-registry; gives its manifest's digest and its layers'."""
        there = f"docker://127.0.0.1:{self.elsewhere.port}/{name}:v1"
        self.tools.run("skopeo", "copy", "--dest-tls-verify=false", "--dest-creds", f"{USER}:{PASSWORD}",
                       f"oci:{self.folder}/layout", there)
        raw = self.tools.run("skopeo", "inspect", "--raw", "--tls-verify=false", "--creds", f"{USER}:{PASSWORD}", there)
        return sha256(raw.encode()), [layer["digest"] for layer in json.loads(raw)["layers"]]

    def publish(self, repository, port, name, digest, secret=None):
        external = {"registry": f"127.0.0.1:{port}", "repository": name, **({"secret": secret} if secret else {})}
        return self.ours.call("POST", "artifacts", {"repository": repository, "reference": digest, "external": external})

    def refused(self, *given):
        try:
            made = self.publish(*given)
        except Refused as refused:
            assert refused.problem["code"] == "external_registry", refused
            return refused.problem["detail"]
        raise AssertionError(f"it was published: {made}")


def what_is_elsewhere_is_published_and_pulled_through(site):
    digest, [layer] = site.push("library/app")
    before = len(site.world.blobs())
    made = site.publish("through", site.elsewhere.port, "library/app", digest, "reader")
    assert (made["state"], made["digest"]) == ("draft", digest), made
    assert len(site.world.blobs()) == before + 1, "more than the config was fetched"
    copied = f"oci:{site.folder}/through:v1"
    site.tools.skopeo("copy", "--preserve-digests", "--src-tls-verify=false", site.tools.at("through", digest), copied)
    assert site.tools.digest(copied) == digest
    # From then on it is here, whatever becomes of where it came from.
    site.elsewhere.stop()
    again = f"oci:{site.folder}/again:v1"
    site.tools.skopeo("copy", "--preserve-digests", "--src-tls-verify=false", site.tools.at("through", digest), again)
    assert site.tools.digest(again) == digest
    assert site.wire.whole(site.ours.name("through"), digest) == []
    site.elsewhere.start()


def a_changed_byte_elsewhere_is_not_taken(site):
    # Other content than above: stored content is not fetched again.
    layer = os.urandom(50_000)
    config = config_of([layer])
    digest = sha256(manifest_of(config, [layer]))
    there = Wire(site.elsewhere.port, PASSWORD, basic=True, user=USER)
    for data in (config, layer):
        location = there.expect(202, "POST", "library/changed/blobs/uploads/").headers["location"]
        location = location[location.index("/v2/"):]
        there.expect(201, "PUT", f"{location}&digest={sha256(data)}", data, {"Content-Type": "application/octet-stream"})
    there.expect(201, "PUT", "library/changed/manifests/v1", manifest_of(config, [layer]), {"Content-Type": IMAGE})
    file = site.elsewhere.file(sha256(layer))
    file.write_bytes(layer[:100] + bytes([layer[100] ^ 1]) + layer[101:])
    site.publish("changed", site.elsewhere.port, "library/changed", digest, "reader")
    name = site.ours.name("changed")
    for _ in range(2):
        got = site.wire.ask("GET", f"{name}/blobs/{sha256(layer)}")
        assert got.status == 502, got
    file.write_bytes(layer)
    assert site.wire.whole(name, digest) == []


def without_the_right_password_nothing_is_read(site):
    digest, _ = site.push("library/closed")
    for secret in (None, "wrong"):
        said = site.refused("closed", site.elsewhere.port, "library/closed", digest, secret)
        assert "secret" in said and PASSWORD not in said, said
    site.refused("closed", site.elsewhere.port, "library/closed", sha256(b"nothing"), "reader")
    site.refused("closed", site.elsewhere.port, "library/absent", digest, "reader")


def refuses(site, repository, secret):
    """None of it can be pulled from our repository, neither directly nor through another one."""
    name, other = site.ours.name(repository), site.ours.name(f"{repository}-other")
    for method in ("GET", "HEAD"):
        got = site.wire.ask(method, f"{name}/blobs/{sha256(secret)}")
        same = f"{len(got.body)} bytes of another tenant's content, the very same: {got.body == secret}"
        assert got.status in (404, 502), f"{method}: {got.status}, {same}"
    site.wire.blob(other, b"so that it is there")
    got = site.wire.ask("POST", f"{other}/blobs/uploads/?mount={sha256(secret)}&from={name}")
    assert got.status == 202, got


def a_digest_of_another_project_is_not_had_by_naming_it(site):
    """The owner of a registry can write any digest into a manifest; that must not expose the content of others here."""
    theirs, secret = site.world.theirs(), os.urandom(4000)
    theirs.wire().image(theirs.name("secret"), "v1", [secret])
    digest = site.liar.image("library/trick", [descriptor(LAYER, secret)], [])
    site.publish("trick", site.liar.port, "library/trick", digest)
    refuses(site, "trick", secret)
    # A project that has the bytes may upload them, and then has access.
    site.liar.says[f"/v2/library/trick/blobs/{sha256(secret)}"] = (200, {}, [secret])
    assert site.wire.expect(200, "GET", f"{site.ours.name('trick')}/blobs/{sha256(secret)}").body == secret


def a_digest_that_was_named_before_it_came_is_not_had_either(site):
    theirs, secret = site.world.theirs(), os.urandom(4000)
    digest = site.liar.image("library/early", [descriptor(LAYER, secret)], [])
    site.publish("early", site.liar.port, "library/early", digest)
    refuses(site, "early", secret)
    made, _ = theirs.wire().image(theirs.name("late"), "v1", [secret])
    refuses(site, "early", secret)
    assert theirs.wire().whole(theirs.name("late"), made) == []


def a_lie_about_a_size_is_nobody_elses_trouble(site):
    """A false claim about the length of a digest must not prevent its owner from pushing and pulling it."""
    theirs = site.world.theirs()
    for number, size in enumerate((1, 4001, 1 << 40)):
        layer = os.urandom(4000)
        digest = site.liar.image(f"library/size-{number}", [{**descriptor(LAYER, layer), "size": size}], [layer])
        site.publish(f"size-{number}", site.liar.port, f"library/size-{number}", digest)
        name = theirs.name(f"size-{number}")
        made, _ = theirs.wire().image(name, "v1", [layer])
        assert theirs.wire().whole(name, made) == []
        assert theirs.wire().expect(200, "HEAD", f"{name}/blobs/{sha256(layer)}").headers["content-length"] == "4000"
        # And the liar's own copy does not match its manifest.
        got = site.wire.ask("GET", f"{site.ours.name(f'size-{number}')}/blobs/{sha256(layer)}")
        assert got.status in (404, 502) or got.body == layer, got


def a_registry_that_lies_is_not_believed(site):
    layer = os.urandom(1000)
    name, path = "library/liar", "/v2/library/liar"
    digest = site.liar.image(name, [descriptor(LAYER, layer)], [])
    other = manifest_of(config_of([]), [])
    site.liar.says[f"{path}/manifests/{sha256(b'asked')}"] = (200, {}, [other])
    assert "digest" in site.refused("liar", site.liar.port, name, sha256(b"asked"))
    site.publish("liar", site.liar.port, name, digest)
    blob = f"{site.ours.name('liar')}/blobs/{sha256(layer)}"
    for body in ([layer[:-1]], [layer, b"more"], [b""], [bytes(1000)]):
        site.liar.says[f"{path}/blobs/{sha256(layer)}"] = (200, {}, body)
        got = site.wire.ask("GET", blob)
        assert got.status == 502, got
    site.liar.says[f"{path}/blobs/{sha256(layer)}"] = (200, {}, [layer])
    assert site.wire.expect(200, "GET", blob).body == layer


def an_endless_document_is_cut_off(site):
    def endless():
        while True:
            yield bytes(1 << 16)

    before, digest = site.world.reset_peak(), sha256(b"endless")
    site.liar.says[f"/v2/library/endless/manifests/{digest}"] = (200, {}, endless())
    begun = time.monotonic()
    site.refused("endless", site.liar.port, "library/endless", digest)
    assert time.monotonic() - begun < 20
    grown = site.world.memory()[1] - before
    assert grown < 64, f"{grown:.0f} MB more"


def a_redirect_is_followed_without_the_password(site):
    other, layer = Liar(), os.urandom(700)
    try:
        digest = site.liar.image("library/moved", [descriptor(LAYER, layer)], [])
        site.liar.says[f"/v2/library/moved/blobs/{sha256(layer)}"] = (
            307, {"Location": f"http://127.0.0.1:{other.port}/elsewhere"}, [])
        other.says["/elsewhere"] = (200, {}, [layer])
        site.liar.closed.add("library/moved")
        site.publish("moved", site.liar.port, "library/moved", digest, "for-liar")
        assert site.wire.expect(200, "GET", f"{site.ours.name('moved')}/blobs/{sha256(layer)}").body == layer
        assert other.asked == [("/elsewhere", None)], other.asked
        assert any(sent for path, sent in site.liar.asked if "library/moved" in path), "the password was never sent at all"
        # Round and round it does not go.
        site.liar.says[f"/v2/library/round/manifests/{digest}"] = (302, {"Location": f"/v2/library/round/manifests/{digest}"}, [])
        site.refused("round", site.liar.port, "library/round", digest)
    finally:
        other.stop()


CHECKS = [
    what_is_elsewhere_is_published_and_pulled_through, a_changed_byte_elsewhere_is_not_taken,
    without_the_right_password_nothing_is_read, a_digest_of_another_project_is_not_had_by_naming_it,
    a_digest_that_was_named_before_it_came_is_not_had_either, a_lie_about_a_size_is_nobody_elses_trouble,
    a_registry_that_lies_is_not_believed, an_endless_document_is_cut_off, a_redirect_is_followed_without_the_password,
]


def run(folder, report):
    with World(folder, registry_allow_private="true") as world:
        site = Site(folder, world)
        try:
            for check in CHECKS:
                report.check(check, site)
        finally:
            site.elsewhere.stop()
            site.liar.stop()
