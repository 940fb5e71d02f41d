"""Content of another project does not exist: by every byte of the response, and by its time."""

import os
import re
import statistics

from wire import IMAGE, config_of, manifest_of, sha256

REQUESTS = 200
# How far two medians may lie apart.
WITHIN = 0.25
UPLOAD = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def bare(answer, *names):
    """A response without the parts that name the resource, the time, or the request."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "x-correlation-id")}
    text = f"{answer.status} {sorted(headers.items())} {answer.body.decode()}"
    for name in names:
        text = text.replace(name, "NAME")
    return UPLOAD.sub("UPLOAD", text)


def absent():
    return sha256(os.urandom(32))


class Secret:
    """Their image, and our repository, which must not disclose it."""

    def __init__(self, world):
        theirs, self.wire = world.theirs(), world.ours.wire()
        self.repository, self.layer = theirs.name("secret"), os.urandom(5000)
        self.manifest, _ = theirs.wire().image(self.repository, "v1", [self.layer])
        self.digest = sha256(self.layer)
        self.ours = world.ours.name("plain")
        self.wire.image(self.ours, "v1", [b"ours"])
        # As long as the name of their tenant, so that the answers can be compared.
        self.nowhere = f"t{os.urandom(4).hex()}.work/secret"


def same(secret, method, path, one, other):
    """The same response for two resources: one that another project has, and one that does not exist."""
    found = [bare(secret.wire.ask(method, path.format(thing)), thing) for thing in (one, other)]
    assert found[0] == found[1], f"{method} {path}:\n  theirs {found[0]}\n  absent {found[1]}"
    assert found[0].startswith("404"), found[0]


def a_digest_that_only_others_have_is_answered_like_one_that_nobody_has(world, secret):
    for method in ("GET", "HEAD", "DELETE"):
        same(secret, method, f"{secret.ours}/blobs/{{}}", secret.digest, absent())
        same(secret, method, f"{secret.ours}/manifests/{{}}", secret.manifest, absent())
    got = [secret.wire.ask("GET", f"{secret.ours}/referrers/{digest}") for digest in (secret.manifest, absent())]
    assert got[0].body == got[1].body, got


def a_repository_of_others_is_answered_like_one_that_is_not_there(world, secret):
    for method, path in (("GET", "manifests/v1"), ("HEAD", "manifests/v1"), ("GET", f"manifests/{secret.manifest}"),
                         ("GET", f"blobs/{secret.digest}"), ("HEAD", f"blobs/{secret.digest}"), ("GET", "tags/list"),
                         ("GET", f"referrers/{secret.manifest}"), ("POST", "blobs/uploads/"), ("DELETE", "manifests/v1")):
        same(secret, method, f"{{}}/{path}", secret.repository, secret.nowhere)
        same(secret, method, f"{{}}/{path}", secret.repository, secret.repository[:-1] + "x")


def nothing_of_others_is_mounted(world, secret):
    found = []
    for digest, source in ((secret.digest, secret.repository), (absent(), secret.repository), (secret.digest, secret.nowhere),
                           (secret.digest, secret.ours)):
        got = secret.wire.ask("POST", f"{secret.ours}/blobs/uploads/?mount={digest}&from={source}")
        assert got.status == 202, got
        secret.wire.expect(204, "DELETE", got.headers["location"])
        found.append(bare(got))
    assert len(set(found)) == 1, found
    secret.wire.expect(404, "HEAD", f"{secret.ours}/blobs/{secret.digest}")


def a_manifest_cannot_name_what_only_others_have(world, secret):
    config = config_of([secret.layer])
    secret.wire.blob(secret.ours, config)
    other = os.urandom(len(secret.layer))
    found = []
    for layer in (secret.layer, other):
        got = secret.wire.ask("PUT", f"{secret.ours}/manifests/taken", manifest_of(config, [layer]), {"Content-Type": IMAGE})
        found.append(bare(got, sha256(layer)))
    assert found[0] == found[1] and "MANIFEST_BLOB_UNKNOWN" in found[0], found


def medians(secret, method, paths):
    """The medians of two requests' times, asked in turns on one connection."""
    times = [[], []]
    for number in range(REQUESTS):
        # Which comes first changes, so that neither always pays for what the other left.
        for index in ((0, 1) if number % 2 else (1, 0)):
            times[index].append(secret.wire.ask(method, paths(index)).seconds)
    return [statistics.median(taken) * 1e6 for taken in times]


def timed(report, secret, what, method, paths):
    for attempt in (1, 2):
        theirs, nobodys = medians(secret, method, paths)
        report.say(f"{what}: {theirs:.0f} µs where others have it, {nobodys:.0f} µs where nobody does")
        if abs(theirs - nobodys) <= WITHIN * max(theirs, nobodys):
            return
    raise AssertionError(f"{what}: {theirs:.0f} µs and {nobodys:.0f} µs, twice: the time tells which is which")


def run(world, report):
    secret = Secret(world)
    for check in (a_digest_that_only_others_have_is_answered_like_one_that_nobody_has,
                  a_repository_of_others_is_answered_like_one_that_is_not_there, nothing_of_others_is_mounted,
                  a_manifest_cannot_name_what_only_others_have):
        report.check(check, world, secret)

    def the_time_does_not_tell_of_a_blob():
        timed(report, secret, "a blob", "HEAD", lambda index: f"{secret.ours}/blobs/{absent() if index else secret.digest}")

    def the_time_does_not_tell_of_a_manifest():
        timed(report, secret, "a manifest", "GET",
              lambda index: f"{secret.ours}/manifests/{absent() if index else secret.manifest}")

    def the_time_does_not_tell_of_a_repository():
        other = secret.repository[:-1] + "x"
        timed(report, secret, "a repository", "GET", lambda index: f"{other if index else secret.repository}/manifests/v1")

    def the_time_does_not_tell_of_a_project():
        timed(report, secret, "a project", "GET", lambda index: f"{secret.nowhere if index else secret.repository}/manifests/v1")

    for check in (the_time_does_not_tell_of_a_blob, the_time_does_not_tell_of_a_manifest,
                  the_time_does_not_tell_of_a_repository, the_time_does_not_tell_of_a_project):
        report.check(check)
