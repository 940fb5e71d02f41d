"""The OCI distribution specification 1.1, request by request, with responses compared to it."""

import os
import socket
import time
import uuid

from wire import (
    BYTES, CONFIG, DOCKER, DOCKER_CONFIG, DOCKER_LAYER, DOCKER_LIST, EMPTY, IMAGE, INDEX, config_of, descriptor,
    manifest_of, sha256, written,
)
from world import World

ABSENT = sha256(b"nobody ever pushed this")
CHUNK = 300_000


def one_request_brings_a_blob(world, wire, name):
    data = b"monolithic"
    got = wire.expect(201, "POST", f"{name}/blobs/uploads/?digest={sha256(data)}", data, {"Content-Type": BYTES})
    assert got.headers["docker-content-digest"] == sha256(data), got
    assert wire.expect(200, "GET", got.headers["location"]).body == data


def post_then_put_brings_a_blob(world, wire, name):
    data = os.urandom(CHUNK)
    got = wire.finish(wire.start(name), sha256(data), data)
    assert (got.status, got.headers["location"]) == (201, f"/v2/{name}/blobs/{sha256(data)}"), got
    assert wire.expect(200, "GET", got.headers["location"]).body == data


def chunks_bring_a_blob_in_order(world, wire, name):
    data = os.urandom(3 * CHUNK)
    location = wire.start(name)
    for number in range(3):
        at = number * CHUNK
        got = wire.patch(location, data[at:at + CHUNK], at)
        assert got.status == 202 and got.headers["range"] == f"0-{at + CHUNK - 1}", got
        status = wire.expect(204, "GET", got.headers["location"])
        assert status.headers["range"] == f"0-{at + CHUNK - 1}", status
        location = got.headers["location"]
    assert wire.finish(location, sha256(data)).status == 201
    assert wire.expect(200, "GET", f"{name}/blobs/{sha256(data)}").body == data
    # The upload is over: there is nothing to resume.
    assert wire.expect(404, "GET", location).codes() == ["BLOB_UPLOAD_UNKNOWN"]


def the_last_chunk_may_come_with_the_put(world, wire, name):
    data = os.urandom(2 * CHUNK)
    location = wire.start(name)
    assert wire.patch(location, data[:CHUNK], 0).status == 202
    got = wire.ask("PUT", f"{location}?digest={sha256(data)}", data[CHUNK:],
                   {"Content-Type": BYTES, "Content-Range": f"{CHUNK}-{2 * CHUNK - 1}"})
    assert got.status == 201, got
    assert wire.expect(200, "GET", f"{name}/blobs/{sha256(data)}").body == data


def a_chunk_out_of_order_is_416_and_changes_nothing(world, wire, name):
    data = os.urandom(2 * CHUNK)
    location = wire.start(name)
    assert wire.patch(location, b"x" * 10, CHUNK).status == 416
    assert wire.patch(location, data[:CHUNK], 0).status == 202
    for wrong in (0, 1, CHUNK - 1, CHUNK + 1, 10 * CHUNK):
        assert wire.patch(location, b"x" * 10, wrong).status == 416, wrong
    assert wire.expect(204, "GET", location).headers["range"] == f"0-{CHUNK - 1}"
    assert wire.patch(location, data[CHUNK:], CHUNK).status == 202
    assert wire.finish(location, sha256(data)).status == 201


def a_refusal_is_seen_while_the_client_still_sends(world, wire, name):
    """A client that is cut off instead of answered repeats for ever, or gives up without knowing why."""
    chunk, manifest, lost = b"x" * 900_000, b"x" * ((4 << 20) + 900_000), []
    ranged = {"Content-Type": BYTES, "Content-Range": f"5-{4 + len(chunk)}"}
    wire = world.ours.wire(keep=True)
    for method, path, status, body, headers in [
        ("PATCH", wire.start(name), 416, b"short", {"Content-Type": BYTES, "Content-Range": "5-9"}),
        ("PATCH", f"/v2/{name}/blobs/uploads/{uuid.uuid4()}", 404, b"short", {"Content-Type": BYTES}),
        ("PATCH", wire.start(name), 416, chunk, ranged),
        ("PATCH", f"/v2/{name}/blobs/uploads/{uuid.uuid4()}", 404, chunk, ranged),
        ("PUT", f"/v2/{name}/manifests/x", 413, manifest, {"Content-Type": IMAGE}),
    ] * 5:
        try:
            wire.expect(status, method, path, body, headers)
            # Unless the server announces that it closes the connection, the connection stays usable.
            wire.expect(200, "GET", "/v2/")
        except OSError as error:
            lost.append(f"{method} {status}, {len(body)} bytes: {error!r}")
    assert not lost, f"{len(lost)} of 25 refusals were not seen, or cut off what came next: {lost}"


def a_content_range_that_lies_is_refused(world, wire, name):
    location = wire.start(name)
    for wrong in ("0-100", "9-0", "x", "bytes", "-5", "0-18446744073709551615"):
        got = wire.ask("PATCH", location, b"four", {"Content-Type": BYTES, "Content-Range": wrong})
        assert got.status in (400, 416), (wrong, got)
    assert wire.finish(location, sha256(b"four"), b"four").status == 201


def begun(world, wire, location, start, data, said):
    """Opens the connection of a chunk with a declared length beyond the bytes sent so far."""
    line = socket.create_connection(("127.0.0.1", world.server.port), timeout=20)
    head = (f"PATCH {location} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {wire.sent['Authorization']}\r\n"
            f"Content-Type: {BYTES}\r\nContent-Range: {start}-{start + said - 1}\r\nContent-Length: {said}\r\n\r\n")
    line.sendall(head.encode() + data)
    return line


def settled(wire, location, at_least=0):
    """Returns the size of an upload, once there is no more writer."""
    before, until = None, time.monotonic() + 20
    while time.monotonic() < until:
        got = wire.expect(204, "GET", location)
        now = 0 if got.headers["range"] == "0-0" else int(got.headers["range"].split("-")[1]) + 1
        if now == before and now >= at_least:
            return now
        before = now
        time.sleep(0.1)
    raise AssertionError(f"the upload stays at {before} bytes")


def a_chunk_that_broke_off_goes_on_where_it_ended(world, wire, name):
    data = os.urandom(4 * CHUNK)
    location = wire.start(name)
    assert wire.patch(location, data[:CHUNK], 0).status == 202
    begun(world, wire, location, CHUNK, data[CHUNK:3 * CHUNK], 3 * CHUNK).close()
    have = settled(wire, location, at_least=CHUNK + 1)
    assert CHUNK < have <= 3 * CHUNK, have
    assert wire.patch(location, data[have:], have).status == 202
    assert wire.finish(location, sha256(data)).status == 201
    assert wire.expect(200, "GET", f"{name}/blobs/{sha256(data)}").body == data


def an_upload_goes_on_after_the_server_was_killed(world, wire, name):
    data = os.urandom(3 * CHUNK)
    location = wire.start(name)
    assert wire.patch(location, data[:CHUNK], 0).status == 202
    world.again()
    wire = world.ours.wire()
    have = settled(wire, location)
    assert have == CHUNK, f"{have} bytes are there, and {CHUNK} were acknowledged"
    # In the middle of a chunk as well.
    with begun(world, wire, location, have, data[have:have + CHUNK // 2], 2 * CHUNK):
        time.sleep(0.1)
        world.again()
    wire = world.ours.wire()
    have = settled(wire, location)
    assert CHUNK <= have <= CHUNK + CHUNK // 2, have
    assert wire.patch(location, data[have:], have).status == 202
    assert wire.finish(location, sha256(data)).status == 201
    assert wire.expect(200, "GET", f"{name}/blobs/{sha256(data)}").body == data


def a_cancelled_upload_is_gone(world, wire, name):
    location = wire.start(name)
    assert wire.patch(location, b"some", 0).status == 202
    wire.expect(204, "DELETE", location)
    assert wire.expect(404, "GET", location).codes() == ["BLOB_UPLOAD_UNKNOWN"]
    assert wire.patch(location, b"more", 4).status == 404
    assert wire.finish(location, sha256(b"some")).status == 404
    wire.expect(404, "DELETE", location)


def content_with_another_digest_is_refused(world, wire, name):
    wrong = sha256(b"another")
    got = wire.ask("POST", f"{name}/blobs/uploads/?digest={wrong}", b"this", {"Content-Type": BYTES})
    assert got.status == 400 and got.codes() == ["DIGEST_INVALID"], got
    got = wire.finish(wire.start(name), wrong, b"this")
    assert got.status == 400 and got.codes() == ["DIGEST_INVALID"], got
    wire.expect(404, "HEAD", f"{name}/blobs/{wrong}")
    wire.expect(404, "HEAD", f"{name}/blobs/{sha256(b'this')}")
    for digest, code in (("sha256:abc", "DIGEST_INVALID"), ("sha512:" + "0" * 128, "UNSUPPORTED"), ("", "DIGEST_INVALID")):
        assert wire.expect(400, "PUT", f"{wire.start(name)}?digest={digest}", b"").codes() == [code], digest


def an_empty_blob_is_a_blob(world, wire, name):
    digest = wire.blob(name, b"")
    assert wire.expect(200, "GET", f"{name}/blobs/{digest}").headers["content-length"] == "0"
    wire.expect(416, "GET", f"{name}/blobs/{digest}", headers={"Range": "bytes=0-0"})
    assert wire.finish(wire.start(name), digest).status == 201


def a_blob_is_mounted_from_a_sibling(world, wire, name):
    data = os.urandom(1000)
    digest = wire.blob(name, data)
    other = world.ours.name("mounted")
    got = wire.expect(201, "POST", f"{other}/blobs/uploads/?mount={digest}&from={name}")
    assert got.headers["location"] == f"/v2/{other}/blobs/{digest}", got
    assert wire.expect(200, "GET", got.headers["location"]).body == data
    # Missing content is uploaded instead, in the session of the response.
    got = wire.expect(202, "POST", f"{other}/blobs/uploads/?mount={ABSENT}&from={name}")
    assert wire.finish(got.headers["location"], sha256(b"instead"), b"instead").status == 201
    wire.expect(202, "POST", f"{other}/blobs/uploads/?mount={digest}")


def parts_of_a_blob_are_sent(world, wire, name):
    data = os.urandom(1000)
    path = f"{name}/blobs/{wire.blob(name, data)}"
    for asked, start, end in (("0-99", 0, 100), ("500-", 500, 1000), ("-10", 990, 1000), ("900-5000", 900, 1000), ("0-0", 0, 1)):
        got = wire.expect(206, "GET", path, headers={"Range": f"bytes={asked}"})
        assert (got.body, got.headers["content-range"]) == (data[start:end], f"bytes {start}-{end - 1}/1000"), (asked, got)
    for asked in ("1000-", "5000-6000", "-0"):
        got = wire.expect(416, "GET", path, headers={"Range": f"bytes={asked}"})
        assert got.headers["content-range"] == "bytes */1000", got
    assert wire.expect(200, "GET", path, headers={"Range": "lines=1-2"}).body == data


def head_says_what_get_would(world, wire, name):
    data = os.urandom(100)
    digest = wire.blob(name, data)
    manifest, content = wire.image(name, "head", [data])
    for path, length in ((f"{name}/blobs/{digest}", 100), (f"{name}/manifests/head", len(content)),
                         (f"{name}/manifests/{manifest}", len(content))):
        got, head = wire.expect(200, "GET", path), wire.expect(200, "HEAD", path)
        assert head.body == b"" and head.headers["content-length"] == str(length), head
        assert head.headers["docker-content-digest"] == got.headers["docker-content-digest"], (head, got)
        assert head.headers["content-type"] == got.headers["content-type"], (head, got)
    for path in (f"blobs/{ABSENT}", f"manifests/{ABSENT}", "manifests/absent"):
        wire.expect(404, "HEAD", f"{name}/{path}")


def referrers_are_found_by_subject_and_kind(world, wire, name):
    subject, content = wire.image(name, "subject", [os.urandom(10)])
    wire.blob(name, b"{}")
    made = {}
    for kind in ("application/vnd.example.sbom", "application/vnd.example.signature"):
        data = written({
            "schemaVersion": 2, "mediaType": IMAGE, "artifactType": kind, "config": descriptor(EMPTY, b"{}"),
            "layers": [descriptor(EMPTY, b"{}")], "subject": {"mediaType": IMAGE, "digest": subject, "size": len(content)},
            "annotations": {"made": "here"}})
        got = wire.expect(201, "PUT", f"{name}/manifests/{sha256(data)}", data, {"Content-Type": IMAGE})
        assert got.headers["oci-subject"] == subject, got
        made[kind] = descriptor(IMAGE, data, artifactType=kind, annotations={"made": "here"})
    got = wire.expect(200, "GET", f"{name}/referrers/{subject}")
    assert got.headers["content-type"] == INDEX and "oci-filters-applied" not in got.headers, got
    document = got.json()
    assert document["schemaVersion"] == 2 and document["mediaType"] == INDEX, document
    assert sorted(document["manifests"], key=str) == sorted(made.values(), key=str), document
    kind = "application/vnd.example.sbom"
    got = wire.expect(200, "GET", f"{name}/referrers/{subject}?artifactType={kind}")
    assert got.json()["manifests"] == [made[kind]] and got.headers["oci-filters-applied"] == "artifactType", got
    wire.expect(202, "DELETE", f"{name}/manifests/{made[kind]['digest']}")
    assert len(wire.expect(200, "GET", f"{name}/referrers/{subject}").json()["manifests"]) == 1


def referrers_of_what_is_absent_are_none(world, wire, name):
    wire.blob(name, b"the repository is there")
    got = wire.expect(200, "GET", f"{name}/referrers/{ABSENT}")
    assert got.json()["manifests"] == [] and got.headers["content-type"] == INDEX, got
    # A manifest may be pushed before its subject.
    wire.blob(name, b"{}")
    data = written({"schemaVersion": 2, "mediaType": IMAGE, "artifactType": "application/vnd.example.early",
                    "config": descriptor(EMPTY, b"{}"), "layers": [descriptor(EMPTY, b"{}")],
                    "subject": {"mediaType": IMAGE, "digest": ABSENT, "size": 7}})
    got = wire.expect(201, "PUT", f"{name}/manifests/{sha256(data)}", data, {"Content-Type": IMAGE})
    assert got.headers["oci-subject"] == ABSENT, got
    assert len(wire.expect(200, "GET", f"{name}/referrers/{ABSENT}").json()["manifests"]) == 1


def tags_come_in_pages(world, wire, name):
    name = world.ours.name("pages")
    _, manifest = wire.image(name, "t0", [b"pages"])
    tags = [f"t{number}" for number in range(7)]
    for tag in tags[1:]:
        wire.manifest(name, tag, manifest)
    assert wire.expect(200, "GET", f"{name}/tags/list").json() == {"name": name, "tags": tags}
    found, path = [], f"{name}/tags/list?n=3"
    while path:
        got = wire.expect(200, "GET", path)
        found.append(got.json()["tags"])
        link = got.headers.get("link")
        assert link is None or link.endswith('; rel="next"'), link
        path = link and link[link.index("<") + 1:link.index(">")]
    assert found == [tags[:3], tags[3:6], tags[6:]], found
    assert wire.expect(200, "GET", f"{name}/tags/list?last=t4").json()["tags"] == ["t5", "t6"]
    assert wire.expect(200, "GET", f"{name}/tags/list?n=0").json()["tags"] == []
    assert wire.expect(400, "GET", f"{name}/tags/list?n=-1").codes() == ["UNSUPPORTED"]
    assert wire.expect(404, "GET", f"{world.ours.name('none')}/tags/list").codes() == ["NAME_UNKNOWN"]


def what_is_deleted_is_gone_and_what_is_needed_stays(world, wire, name):
    layer = os.urandom(50)
    digest, manifest = wire.image(name, "one", [layer])
    wire.manifest(name, "two", manifest)
    needed = wire.ask("DELETE", f"{name}/blobs/{sha256(layer)}")
    assert needed.status in (405, 409), f"a manifest needs it: {needed}"
    wire.expect(202, "DELETE", f"{name}/manifests/one")
    wire.expect(404, "GET", f"{name}/manifests/one")
    wire.expect(200, "GET", f"{name}/manifests/two")
    wire.expect(202, "DELETE", f"{name}/manifests/{digest}")
    for reference in ("two", digest):
        assert wire.expect(404, "GET", f"{name}/manifests/{reference}").codes() == ["MANIFEST_UNKNOWN"]
    wire.expect(404, "DELETE", f"{name}/manifests/{digest}")
    wire.expect(202, "DELETE", f"{name}/blobs/{sha256(layer)}")
    assert wire.expect(404, "GET", f"{name}/blobs/{sha256(layer)}").codes() == ["BLOB_UNKNOWN"]
    # Part of an index: that goes first.
    child, content = wire.image(name, "child", [layer])
    index = written({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor(IMAGE, content)]})
    wire.manifest(name, "index", index, INDEX)
    assert wire.ask("DELETE", f"{name}/manifests/{child}").status == 409
    wire.expect(202, "DELETE", f"{name}/manifests/{sha256(index)}")
    wire.expect(202, "DELETE", f"{name}/manifests/{child}")


def a_manifest_needs_its_blobs(world, wire, name):
    config = config_of([])
    wire.blob(name, config)
    for layers in ([b"this layer is nowhere"], [b"{}", b"nor is this"]):
        got = wire.ask("PUT", f"{name}/manifests/bare", manifest_of(config, layers), {"Content-Type": IMAGE})
        assert got.status in (400, 404) and got.codes() == ["MANIFEST_BLOB_UNKNOWN"], got
    short = {**descriptor(CONFIG, config), "size": len(config) - 1}
    got = wire.ask("PUT", f"{name}/manifests/bare", written({
        "schemaVersion": 2, "mediaType": IMAGE, "config": short, "layers": []}), {"Content-Type": IMAGE})
    assert got.status == 400, f"a size that lies: {got}"
    absent = {"mediaType": IMAGE, "digest": ABSENT, "size": 7}
    got = wire.ask("PUT", f"{name}/manifests/bare", written({
        "schemaVersion": 2, "mediaType": INDEX, "manifests": [absent]}), {"Content-Type": INDEX})
    assert got.status in (400, 404) and got.codes() == ["MANIFEST_BLOB_UNKNOWN"], got
    wire.expect(404, "HEAD", f"{name}/manifests/bare")


def a_manifest_is_what_it_says_it_is(world, wire, name):
    config = config_of([])
    wire.blob(name, config)
    good = manifest_of(config, [])
    for data, kind, why in (
        (good, INDEX, "an image that is announced as an index"),
        (good, DOCKER, "an OCI image that is announced as Docker's"),
        (good, "text/plain", "an image that is announced as text"),
        (b"not json", IMAGE, "what is no JSON"),
        (b"{}", IMAGE, "an empty document"),
        (good.replace(b'"schemaVersion":2', b'"schemaVersion":1'), IMAGE, "schema 1"),
        (good.replace(b'"layers":[]', b'"layers":[],"layers":[]'), IMAGE, "two lists of layers"),
        (good.replace(b'"layers":[]', b'"layers":[],"manifests":[]'), IMAGE, "an image and an index at once"),
    ):
        got = wire.ask("PUT", f"{name}/manifests/wrong", data, {"Content-Type": kind})
        assert got.status == 400 and got.codes() == ["MANIFEST_INVALID"], f"{why}: {got}"
    got = wire.ask("PUT", f"{name}/manifests/{ABSENT}", good, {"Content-Type": IMAGE})
    assert got.status == 400 and got.codes() == ["DIGEST_INVALID"], got
    wire.expect(404, "HEAD", f"{name}/manifests/wrong")


def dockers_own_formats_are_kept_as_they_are(world, wire, name):
    layer, config = os.urandom(40), config_of([], created="2026-01-02T00:00:00Z")
    for data in (layer, config):
        wire.blob(name, data)
    image = written({"schemaVersion": 2, "mediaType": DOCKER, "config": descriptor(DOCKER_CONFIG, config),
                     "layers": [descriptor(DOCKER_LAYER, layer)]})
    digest = wire.manifest(name, "docker", image, DOCKER)
    several = written({"schemaVersion": 2, "mediaType": DOCKER_LIST, "manifests": [
        descriptor(DOCKER, image, platform={"architecture": "amd64", "os": "linux"})]})
    wire.manifest(name, "list", several, DOCKER_LIST)
    for reference, data, kind in (("docker", image, DOCKER), (digest, image, DOCKER), ("list", several, DOCKER_LIST)):
        got = wire.expect(200, "GET", f"{name}/manifests/{reference}")
        assert got.body == data and got.headers["content-type"] == kind, got


def files_of_any_kind_are_artifacts(world, wire, name):
    """A manifest with the empty config, as `oras` and our own command line push."""
    data = os.urandom(99)
    for part in (b"{}", data):
        wire.blob(name, part)
    manifest = written({
        "schemaVersion": 2, "mediaType": IMAGE, "artifactType": "application/vnd.example.files",
        "config": descriptor(EMPTY, b"{}"),
        "layers": [descriptor(BYTES, data, annotations={"org.opencontainers.image.title": "weights.bin"})]})
    wire.manifest(name, "files", manifest)
    found = world.ours.call("GET", f"artifacts/{name.split('/', 1)[1]}:files")
    assert (found["kind"], found["state"], found["digest"]) == ("blob", "draft", sha256(manifest)), found


def what_nobody_can_ask_for_is_refused(world, wire, name):
    for method, path, status in (
        ("POST", f"{name}/manifests/x", 405), ("PUT", f"{name}/tags/list", 405), ("GET", f"{name}/x/y/z", 404),
        ("PATCH", f"{name}/blobs/{ABSENT}", 405), ("GET", f"{name}/blobs/uploads/not-an-id", 404),
    ):
        got = wire.ask(method, path, b"" if method != "GET" else None)
        assert got.status == status and got.codes(), (method, path, got)
    got = wire.expect(200, "GET", "/v2/")
    assert got.headers["docker-distribution-api-version"] == "registry/2.0", got


CHECKS = [
    one_request_brings_a_blob, post_then_put_brings_a_blob, chunks_bring_a_blob_in_order, the_last_chunk_may_come_with_the_put,
    a_chunk_out_of_order_is_416_and_changes_nothing, a_refusal_is_seen_while_the_client_still_sends,
    a_content_range_that_lies_is_refused,
    a_chunk_that_broke_off_goes_on_where_it_ended, a_cancelled_upload_is_gone, content_with_another_digest_is_refused,
    an_empty_blob_is_a_blob, a_blob_is_mounted_from_a_sibling, parts_of_a_blob_are_sent, head_says_what_get_would,
    referrers_are_found_by_subject_and_kind, referrers_of_what_is_absent_are_none, tags_come_in_pages,
    what_is_deleted_is_gone_and_what_is_needed_stays, a_manifest_needs_its_blobs, a_manifest_is_what_it_says_it_is,
    dockers_own_formats_are_kept_as_they_are, files_of_any_kind_are_artifacts, what_nobody_can_ask_for_is_refused,
    an_upload_goes_on_after_the_server_was_killed,
]


def run(folder, report):
    with World(folder) as world:
        for number, check in enumerate(CHECKS):
            # A repository each, so that one check cannot lean on what another pushed.
            report.check(check, world, world.ours.wire(), world.ours.name(f"check-{number}"))
