"""Trusted signatures: keys by OpenSSL, cosign's simple signing written by hand, and the steps from draft to active.

The server's verdicts are compared with OpenSSL's signatures; nothing of the platform's own signing is used.
"""

import base64
import json
import os
import subprocess
import time

from platform_under_test import Refused
from wire import CONFIG, IMAGE, config_of, descriptor, sha256, written
from world import World

SIMPLE = "application/vnd.dev.cosign.simplesigning.v1+json"


class Key:
    """A key pair, made by OpenSSL as by hand."""

    def __init__(self, folder, name):
        self.private, self.public = folder / f"{name}.pem", folder / f"{name}.pub"
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", folder / f"{name}.ec")
        openssl("pkcs8", "-topk8", "-nocrypt", "-in", folder / f"{name}.ec", "-out", self.private)
        openssl("pkey", "-in", self.private, "-pubout", "-out", self.public)

    def sign(self, data):
        return openssl("dgst", "-sha256", "-sign", self.private, stdin=data)


def openssl(*words, stdin=None):
    ran = subprocess.run(["openssl", *map(str, words)], input=stdin, capture_output=True, timeout=30)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


class Publisher:
    """A publisher that pushes images to a project, signs them and promotes them."""

    def __init__(self, world):
        self.project, self.wire, self.made = world.ours, world.ours.wire(), 0

    def image(self, repository):
        """A new image: its name for the API, and its digest."""
        self.made += 1
        name = self.project.name(repository)
        digest, _ = self.wire.image(name, f"v{self.made}", [os.urandom(200)])
        return f"{repository}@{digest}", digest

    def sign(self, repository, digest, key, says=None):
        """As cosign writes it: a manifest under `sha256-….sig` with the signed payload as its layer."""
        name = self.project.name(repository)
        payload = json.dumps({
            "critical": {"identity": {"docker-reference": name}, "image": {"docker-manifest-digest": says or digest},
                         "type": "cosign container image signature"}, "optional": None}).encode()
        config = config_of([payload])
        for data in (config, payload):
            self.wire.blob(name, data)
        signature = base64.b64encode(key.sign(payload)).decode()
        self.wire.manifest(name, digest.replace(":", "-") + ".sig", written({
            "schemaVersion": 2, "mediaType": IMAGE, "config": descriptor(CONFIG, config),
            "layers": [descriptor(SIMPLE, payload, annotations={"dev.cosignproject.cosign/signature": signature})]}))

    def trust(self, name, key):
        return self.project.call("POST", "keys", {"name": name, "public_key": key.public.read_text()})

    def promote(self, artifact, to):
        return self.project.call("POST", f"artifacts/{artifact}/promote", {"to": to, "reason": "a test"})

    def verify(self, artifact):
        return self.project.call("POST", f"artifacts/{artifact}/verify", {})

    def refused(self, status, code, act, *given):
        try:
            answer = act(*given)
        except Refused as refused:
            assert refused.status == status and refused.problem["code"] == code, refused
            return refused.problem["detail"]
        raise AssertionError(f"expected {status} {code}, and it was done: {answer}")


def what_a_trusted_key_signed_becomes_active(world, publisher, keys):
    artifact, digest = publisher.image("signed")
    publisher.sign("signed", digest, keys["ours"])
    verdict = publisher.verify(artifact)["verdict"]
    assert verdict["trust"] == "trusted" and verdict["key_id"] == keys["id"], verdict
    for state in ("staged", "canary", "active"):
        assert publisher.promote(artifact, state)["state"] == state
    # A newer one takes its place.
    newer, digest = publisher.image("signed")
    publisher.sign("signed", digest, keys["ours"])
    for state in ("staged", "canary", "active"):
        publisher.promote(newer, state)
    assert publisher.project.call("GET", f"artifacts/{artifact}")["state"] == "deprecated"
    assert len(publisher.project.audited("artifact.promote", 6)) == 6


def what_nobody_signed_goes_no_further_than_the_rules_say(world, publisher, keys):
    artifact, _ = publisher.image("unsigned")
    assert publisher.verify(artifact)["verdict"]["trust"] == "unsigned"
    publisher.project.call("PATCH", "trust-policy", {"unsigned_up_to": "draft"})
    publisher.refused(409, "untrusted", publisher.promote, artifact, "staged")
    publisher.project.call("PATCH", "trust-policy", {"unsigned_up_to": "staged"})
    assert publisher.promote(artifact, "staged")["state"] == "staged"
    publisher.refused(409, "untrusted", publisher.promote, artifact, "canary")


def anothers_signature_counts_for_nothing(world, publisher, keys):
    artifact, digest = publisher.image("stranger")
    publisher.sign("stranger", digest, keys["stranger"])
    verdict = publisher.verify(artifact)["verdict"]
    assert (verdict["trust"], verdict["reason"]) == ("untrusted", "other_key"), verdict
    said = publisher.refused(409, "untrusted", publisher.promote, artifact, "staged")
    assert publisher.project.call("GET", f"artifacts/{artifact}")["state"] == "draft", said


def a_signature_of_something_else_counts_for_nothing(world, publisher, keys):
    artifact, digest = publisher.image("elsewhere")
    publisher.sign("elsewhere", digest, keys["ours"], says=sha256(b"something else"))
    verdict = publisher.verify(artifact)["verdict"]
    assert (verdict["trust"], verdict["reason"]) == ("untrusted", "wrong_digest"), verdict
    publisher.refused(409, "untrusted", publisher.promote, artifact, "staged")


def a_revoked_key_counts_no_more_and_everybody_can_read_why(world, publisher, keys):
    artifact, digest = publisher.image("revoked")
    publisher.sign("revoked", digest, keys["ours"])
    other, digest = publisher.image("revoked")
    publisher.sign("revoked", digest, keys["ours"])
    assert publisher.promote(artifact, "staged")["verdict"]["trust"] == "trusted"
    assert publisher.verify(other)["verdict"]["trust"] == "trusted"
    publisher.project.call("POST", f"keys/{keys['id']}/revoke", {"reason": "it was stolen"})
    for stopped, state in ((other, "staged"), (artifact, "canary")):
        publisher.refused(409, "untrusted", publisher.promote, stopped, state)
        verdict = publisher.verify(stopped)["verdict"]
        assert (verdict["trust"], verdict["reason"]) == ("untrusted", "revoked_key"), verdict
    entries = publisher.project.audited("key.revoke", 1)
    assert len(entries) == 1 and entries[0]["record"]["target"]["id"] == keys["id"], entries
    # So is every refused attempt, with the reason. By a new actor: repeated refusals are counted, not written each.
    _, robot = publisher.project.account("artifact.promote")
    try:
        publisher.project.call("POST", f"artifacts/{other}/promote", {"to": "staged", "reason": "a test"}, token=robot)
        raise AssertionError("it was promoted")
    except Refused as refused:
        assert refused.problem["code"] == "untrusted", refused
    until = time.monotonic() + 10
    while time.monotonic() < until:
        tried = [entry["record"] for entry in publisher.project.audited("artifact.promote", 1)]
        if any(record["outcome"] == "refused" and "revoked" in json.dumps(record["detail"]) for record in tried):
            return
        time.sleep(0.1)
    raise AssertionError([record for record in tried if record["outcome"] == "refused"])



def a_damaged_blob_is_found_and_healed_by_a_push(world, publisher, keys):
    name, layer = publisher.project.name("damaged"), os.urandom(3000)
    digest, _ = publisher.wire.image(name, "v1", [layer])
    [file] = [path for path in world.blobs() if path.name.startswith(sha256(layer)[7:])]
    file.chmod(0o600)
    with open(file, "r+b") as content:
        content.seek(1500)
        content.write(bytes([layer[1500] ^ 1]))
    said = publisher.refused(409, "invalid_state", publisher.verify, f"damaged@{digest}")
    assert "push it again" in said and sha256(layer) in said, said
    # A client that checks before it pushes gets a 404, and pushes.
    publisher.wire.expect(404, "HEAD", f"{name}/blobs/{sha256(layer)}")
    publisher.wire.blob(name, layer)
    assert publisher.verify(f"damaged@{digest}")["digest"] == digest
    assert publisher.wire.whole(name, digest) == []


def run(folder, report):
    with World(folder) as world:
        publisher = Publisher(world)
        keys = {name: Key(folder, name) for name in ("ours", "stranger")}
        keys["id"] = publisher.trust("release", keys["ours"])["id"]
        for check in (what_a_trusted_key_signed_becomes_active, what_nobody_signed_goes_no_further_than_the_rules_say,
                      anothers_signature_counts_for_nothing, a_signature_of_something_else_counts_for_nothing,
                      a_damaged_blob_is_found_and_healed_by_a_push, a_revoked_key_counts_no_more_and_everybody_can_read_why):
            report.check(check, world, publisher, keys)
