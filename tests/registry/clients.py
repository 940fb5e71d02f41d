"""The usual clients: skopeo and podman, as distributions ship them.

Each has its own home, store and runtime folder, so that nothing is left in the user's own.
"""

import json
import os
import re
import subprocess

from image import make
from platform_under_test import unique_name
from wire import IMAGE, INDEX, config_of, descriptor, manifest_of, sha256, written
from world import World


class Tools:
    """Programs in a folder of their own."""

    def __init__(self, folder, world):
        self.folder, self.world, self.host = folder, world, f"127.0.0.1:{world.server.port}"
        self.environment = {
            "PATH": os.environ["PATH"], "HOME": str(folder / "home"), "XDG_RUNTIME_DIR": str(folder / "runtime"),
            "TMPDIR": str(folder / "tmp"),
        }
        for name in ("home", "runtime", "tmp"):
            (folder / name).mkdir(exist_ok=True)

    def run(self, *words, stdin=None, good=True):
        ran = subprocess.run(
            [str(word) for word in words], env=self.environment, cwd=self.folder, input=stdin,
            capture_output=True, text=True, timeout=120)
        said = f"{ran.returncode} {ran.stderr[-1500:]}{ran.stdout[-500:]}"
        assert (ran.returncode == 0) == good, f"{' '.join(map(str, words))}: {said}"
        return ran.stdout.strip()

    def skopeo(self, verb, *words, token=None, good=True):
        """Runs skopeo with this token, which goes into a file: arguments are world-readable."""
        token = token or self.world.ours.token
        return self.run("skopeo", verb, "--authfile", self.logged_in(token), *words, good=good)

    def logged_in(self, token):
        path = self.folder / f"auth-{sha256(token.encode())[7:19]}.json"
        if not path.exists():
            self.run("skopeo", "login", "--tls-verify=false", "--authfile", path, "-u", "anybody", "--password-stdin",
                     self.host, stdin=token)
        return path

    def podman(self, store, *words, stdin=None, good=True):
        place = self.folder / store
        return self.run(
            "podman", "--root", place / "root", "--runroot", place / "run", "--tmpdir", place / "tmp", "--storage-driver", "vfs",
            "--events-backend", "none", "--cgroup-manager", "cgroupfs", *words, stdin=stdin, good=good)

    def at(self, repository, reference="v1"):
        mark = "@" if reference.startswith("sha256:") else ":"
        return f"docker://{self.host}/{self.world.ours.name(repository)}{mark}{reference}"

    def digest(self, place, *words):
        """Returns the digest of the content, by skopeo's own reading of the raw manifest."""
        authfile = str(self.logged_in(self.world.ours.token))
        raw = subprocess.run(
            ["skopeo", "inspect", "--raw", "--tls-verify=false", "--authfile", authfile, *words, place],
            env=self.environment, capture_output=True, timeout=60)
        assert raw.returncode == 0, raw.stderr
        return sha256(raw.stdout)


def layout_of_two(folder):
    """An OCI layout with a tag that is an index of two images."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def keep(data):
        (blobs / sha256(data)[7:]).write_bytes(data)
        return data

    manifests = []
    for architecture in ("amd64", "arm64"):
        layer = keep(f"a layer for {architecture}".encode().ljust(1024, b"\0"))
        config = keep(config_of([layer], architecture))
        manifest = keep(manifest_of(config, [layer]))
        platform = {"architecture": architecture, "os": "linux"}
        manifests.append(descriptor(IMAGE, manifest, platform=platform))
    index = keep(written({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}))
    top = {"schemaVersion": 2, "manifests": [
        descriptor(INDEX, index, annotations={"org.opencontainers.image.ref.name": "both"})]}
    (folder / "index.json").write_text(json.dumps(top))
    (folder / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    return sha256(index), [entry["digest"] for entry in manifests]


def skopeo_copies_in_and_out_without_changing_a_byte(tools):
    # With this flag it compresses nothing on the way.
    tools.skopeo("copy", "--preserve-digests", "--dest-tls-verify=false", f"oci:{tools.folder}/layout", tools.at("app"))
    assert tools.digest(tools.at("app")) == tools.image
    tools.skopeo("copy", "--preserve-digests", "--src-tls-verify=false", tools.at("app", tools.image),
                 f"oci:{tools.folder}/copied:v1")
    assert tools.digest(f"oci:{tools.folder}/copied:v1") == tools.image
    tools.skopeo("copy", "--src-tls-verify=false", tools.at("app"), f"docker-archive:{tools.folder}/copied.tar:app:v1")
    config = json.loads(tools.skopeo("inspect", "--config", f"docker-archive:{tools.folder}/copied.tar:app:v1"))
    meant = json.loads(tools.skopeo("inspect", "--config", f"oci:{tools.folder}/layout"))
    assert config["rootfs"] == meant["rootfs"], config


def skopeo_copies_a_docker_archive_in(tools):
    tools.skopeo("copy", f"oci:{tools.folder}/layout", f"docker-archive:{tools.folder}/there.tar:app:v1")
    # Images from an archive are pushed in Docker's own format.
    tools.skopeo("copy", "--dest-tls-verify=false", "--format", "v2s2", f"docker-archive:{tools.folder}/there.tar:app:v1",
                 tools.at("archive"))
    shown = json.loads(tools.skopeo("inspect", "--raw", "--tls-verify=false", tools.at("archive")))
    assert shown["mediaType"] == "application/vnd.docker.distribution.manifest.v2+json", shown
    tools.skopeo("copy", "--src-tls-verify=false", tools.at("archive"), f"docker-archive:{tools.folder}/back.tar:app:v1")


def names_of_temporary_folders_fit_image_references(_tools):
    # podman makes a reference of the path of a layout; this is the grammar of one word of it.
    word = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*")
    refused = [name for name in (unique_name("muster-e2e") for _ in range(1000)) if not word.fullmatch(name)]
    assert not refused, refused[:5]


def podman_logs_in_pushes_and_pulls_from_an_empty_store(tools):
    authfile = tools.folder / "podman-auth.json"
    said = tools.podman("one", "login", "--tls-verify=false", "--authfile", authfile, "-u", "anybody", "--password-stdin",
                        tools.host, stdin=tools.world.ours.token)
    assert "Login Succeeded" in said, said
    there = f"{tools.host}/{tools.world.ours.name('pod')}:v1"
    image = tools.podman("one", "pull", "--quiet", f"oci:{tools.folder}/layout").splitlines()[-1]
    tools.podman("one", "push", "--tls-verify=false", "--authfile", authfile, "--digestfile", tools.folder / "pushed", image,
                 f"docker://{there}")
    pushed = (tools.folder / "pushed").read_text().strip()
    assert tools.digest(tools.at("pod")) == pushed
    pulled = tools.podman("two", "pull", "--quiet", "--tls-verify=false", "--authfile", authfile, there).splitlines()[-1]
    assert pulled == image, f"{pulled} was pulled, {image} was pushed"
    found = tools.podman("two", "image", "inspect", "--format", "{{.Digest}}", pulled)
    assert found == pushed, f"{found} was pulled, {pushed} was pushed"


def podman_does_not_log_in_with_a_wrong_token(tools):
    authfile = tools.folder / "wrong.json"
    tools.podman("one", "login", "--tls-verify=false", "--authfile", authfile, "-u", "anybody", "--password-stdin", tools.host,
                 stdin="mst_pat_" + "x" * 40, good=False)


def basic_without_a_token_service_does_as_well(tools):
    wire = tools.world.ours.wire(basic=True)
    wire.expect(200, "GET", "/v2/")
    wire.expect(200, "GET", f"{tools.world.ours.name('app')}/manifests/v1")
    # A client without credentials gets the address and scope for a token.
    shown = tools.world.ours.wire()
    shown.sent = {}
    told = shown.expect(401, "GET", f"{tools.world.ours.name('app')}/manifests/v1").headers["www-authenticate"]
    assert told.startswith(f'Bearer realm="http://{tools.host}/v2/token"'), told
    assert f'scope="repository:{tools.world.ours.name("app")}:pull"' in told, told


def an_index_of_two_is_copied_whole(tools):
    index, images = layout_of_two(tools.folder / "two")
    tools.skopeo("copy", "--all", "--preserve-digests", "--dest-tls-verify=false", f"oci:{tools.folder}/two:both",
                 tools.at("multi", "both"))
    assert tools.digest(tools.at("multi", "both")) == index
    for image in images:
        assert tools.digest(tools.at("multi", image)) == image
    tools.skopeo("copy", "--all", "--preserve-digests", "--src-tls-verify=false", tools.at("multi", "both"),
                 f"oci:{tools.folder}/two-back:both")
    assert tools.digest(f"oci:{tools.folder}/two-back:both") == index


def tags_are_listed_and_what_is_deleted_is_gone(tools):
    for tag in ("b", "a", "c"):
        tools.skopeo("copy", "--dest-tls-verify=false", f"oci:{tools.folder}/layout", tools.at("listed", tag))
    listed = json.loads(tools.skopeo("list-tags", "--tls-verify=false", tools.at("listed").rsplit(":", 1)[0]))
    assert listed["Tags"] == ["a", "b", "c"], listed
    tools.skopeo("delete", "--tls-verify=false", tools.at("listed", "a"))
    # skopeo deletes by digest, and takes every tag of it along.
    tools.skopeo("inspect", "--tls-verify=false", tools.at("listed", "b"), good=False)


def whoever_may_only_pull_cannot_push_with_skopeo(tools):
    _, token = tools.world.ours.account("repository.pull")
    tools.skopeo("copy", "--src-tls-verify=false", tools.at("app"), f"oci:{tools.folder}/pulled:v1", token=token)
    tools.skopeo("copy", "--dest-tls-verify=false", f"oci:{tools.folder}/layout", tools.at("app", "v2"), token=token, good=False)
    tools.world.ours.wire().expect(404, "HEAD", f"{tools.world.ours.name('app')}/manifests/v2")


CHECKS = [
    skopeo_copies_in_and_out_without_changing_a_byte,
    skopeo_copies_a_docker_archive_in,
    names_of_temporary_folders_fit_image_references,
    podman_logs_in_pushes_and_pulls_from_an_empty_store,
    podman_does_not_log_in_with_a_wrong_token,
    basic_without_a_token_service_does_as_well,
    an_index_of_two_is_copied_whole,
    tags_are_listed_and_what_is_deleted_is_gone,
    whoever_may_only_pull_cannot_push_with_skopeo,
]


def run(folder, report):
    with World(folder) as world:
        tools = Tools(folder, world)
        tools.image = make(folder / "layout")
        for check in CHECKS:
            report.check(check, tools)
