"""Attackers: with permissions they do not have, guessed ids, oversized documents, and invalid names."""

import base64
import gzip
import io
import os
import socket
import time
import uuid

import hidden
import ssrf
from wire import BYTES, CONFIG, IMAGE, Wire, config_of, descriptor, manifest_of, sha256, written
from world import DELETE, PULL, PUSH, RETAG, World

# Memory that a single hostile request may cost the server, in megabytes.
MOST_GROWTH = 64
# The longest manifest.
LONGEST = 4 << 20


def a_tag_is_moved_only_by_whoever_may(world, report):
    name, ours = world.ours.name("tags"), world.ours
    robot = ours.wire(ours.account(PULL, PUSH)[1])
    first, content = robot.image(name, "v1", [b"first"])
    config = config_of([b"second"])
    for data in (config, b"second"):
        robot.blob(name, data)
    second = manifest_of(config, [b"second"])
    got = robot.ask("PUT", f"{name}/manifests/v1", second, {"Content-Type": IMAGE})
    assert got.status == 403 and got.codes() == ["DENIED"], got
    assert robot.expect(200, "HEAD", f"{name}/manifests/v1").headers["docker-content-digest"] == first
    # The same content again moves nothing, and by digest or under a new tag it may come.
    robot.manifest(name, "v1", content)
    robot.manifest(name, sha256(second), second)
    robot.manifest(name, "v2", second)
    assert robot.ask("DELETE", f"{name}/manifests/v1").status == 403
    mover = ours.wire(ours.account(PULL, PUSH, RETAG)[1])
    mover.manifest(name, "v1", second)
    assert robot.expect(200, "HEAD", f"{name}/manifests/v1").headers["docker-content-digest"] == sha256(second)
    # A client that resolved the tag before and pulls by digest gets the same content.
    assert robot.expect(200, "GET", f"{name}/manifests/{first}").body == content
    assert robot.whole(name, first) == []


def a_tag_that_moves_all_the_time_is_never_half_of_each(world, report):
    name, wire = world.ours.name("moving"), world.ours.wire()
    made = [wire.image(name, f"kept-{number}", [f"layer {number}".encode()]) for number in range(2)]
    for turn in range(20):
        wire.manifest(name, "latest", made[turn % 2][1])
        verified = wire.expect(200, "HEAD", f"{name}/manifests/latest").headers["docker-content-digest"]
        wire.manifest(name, "latest", made[(turn + 1) % 2][1])
        got = wire.expect(200, "GET", f"{name}/manifests/{verified}")
        assert sha256(got.body) == verified == made[turn % 2][0], got


def rights_are_what_the_account_has(world, report):
    name, ours = world.ours.name("rights"), world.ours
    digest, content = ours.wire().image(name, "v1", [b"rights"])
    for permissions, allowed in (((), ()), ((PULL,), ("pull",)), ((PUSH,), ("push",)), ((DELETE,), ("delete",))):
        wire = ours.wire(ours.account("project.get", *permissions)[1])
        pulls = wire.ask("GET", f"{name}/manifests/v1").status
        pushes = wire.ask("POST", f"{name}/blobs/uploads/").status
        keeps = wire.ask("PUT", f"{name}/manifests/new-{len(permissions)}", content, {"Content-Type": IMAGE}).status
        deletes = wire.ask("DELETE", f"{name}/manifests/{sha256(b'nothing')}").status
        found = {"pull": pulls == 200, "push": pushes == 202 and keeps == 201, "delete": deletes == 404}
        assert found == {word: word in allowed for word in found}, (permissions, pulls, pushes, keeps, deletes)
    viewer = ours.wire(ours.tokens["project_viewer"])
    viewer.expect(200, "GET", f"{name}/manifests/{digest}")
    assert viewer.ask("POST", f"{name}/blobs/uploads/").status == 403


def the_token_of_another_project_opens_nothing(world, report):
    name = world.ours.name("closed")
    digest, _ = world.ours.wire().image(name, "v1", [b"closed"])
    for token in (world.theirs().token, world.theirs().account(PULL, PUSH, DELETE, RETAG, "repository.list")[1]):
        wire = world.ours.wire(token)
        for method, path in (("GET", "manifests/v1"), ("GET", f"manifests/{digest}"), ("GET", "tags/list"),
                             ("POST", "blobs/uploads/"), ("DELETE", f"manifests/{digest}")):
            assert wire.expect(404, method, f"{name}/{path}").codes() == ["NAME_UNKNOWN"], path
        assert name not in str(wire.expect(200, "GET", "/v2/_catalog").json())


def credentials_of_any_shape_are_survived(world, report):
    def basic(data):
        return "Basic " + base64.b64encode(data).decode()

    for value in ("", "Basic", "Basic !!!", basic(b"no colon"), basic(b"\xff\xfe:\xff"), basic(b"a:"), basic(b":"),
                  basic(b"u:" + b"x" * 4000), "Bearer", "Bearer ", "Bearer mst_reg_", "Bearer mst_reg_a.b", "Bearer mst_reg_..",
                  "Digest x", "Bearer " + "é" * 10, basic(b"u:mst_pat_" + b"0" * 40), "Bearer mst_reg_e30.e30"):
        wire = Wire(world.server.port)
        for path in ("/v2/", f"{world.ours.name('x')}/manifests/v1", "/v2/token?scope=repository:x:pull"):
            got = wire.ask("GET", path, headers={"Authorization": value.encode()} if value else {})
            assert got.status == 401 and got.codes() == ["UNAUTHORIZED"], (value[:40], path, got)
            assert got.headers["www-authenticate"].startswith("Bearer realm="), got


def fetched(world, token, *scopes):
    """A registry's token, as clients fetch it."""
    query = "&".join(f"scope=repository:{scope}" for scope in scopes)
    return world.ours.wire(token, basic=True).expect(200, "GET", f"/v2/token?service=x&{query}").json()["token"]


def a_registry_token_is_for_what_it_was_fetched_for(world, report):
    one, other, ours = world.ours.name("scope-one"), world.ours.name("scope-other"), world.ours
    for name in (one, other):
        ours.wire().image(name, "v1", [b"scopes"])
    wire = ours.wire(fetched(world, ours.token, f"{one}:pull"))
    wire.expect(200, "GET", f"{one}/manifests/v1")
    for method, path in (("GET", f"{other}/manifests/v1"), ("GET", f"{other}/tags/list"), ("POST", f"{one}/blobs/uploads/"),
                         ("DELETE", f"{one}/manifests/v1"), ("GET", "/v2/token?scope=repository:x:pull")):
        assert wire.ask(method, path).status in (401, 403), (method, path)
    # Nor does it take anything over from where it may not read, or open the rest of the API.
    pusher = ours.wire(fetched(world, ours.token, f"{one}:pull,push"))
    extra = ours.wire().blob(other, b"only in the other one")
    assert pusher.ask("POST", f"{one}/blobs/uploads/?mount={extra}&from={other}").status == 202
    assert world.server.request("GET", f"/v1/projects/{ours.id}", token=wire.sent["Authorization"][7:])[0] == 401
    # Asking for more than one may do gives nothing more.
    theirs = world.ours.wire(fetched(world, world.theirs().token, f"{one}:pull,push,delete", f"{one}:*"))
    assert theirs.ask("GET", f"{one}/manifests/v1").status in (401, 403, 404)
    # Every bit of it counts.
    token = fetched(world, ours.token, f"{one}:pull")
    claims, tag = token[len("mst_reg_"):].split(".")
    forged = base64.urlsafe_b64decode(claims + "==").replace(b'"pull"', b'"push"')
    for wrong in (f"mst_reg_{base64.urlsafe_b64encode(forged).decode().rstrip('=')}.{tag}", token[:-2], token + "A"):
        assert ours.wire(wrong).ask("POST", f"{one}/blobs/uploads/").status == 401, wrong


def dead_within(seconds, wire, path):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if wire.ask("GET", path).status == 401:
            return True
        time.sleep(0.1)
    return False


def a_revoked_token_is_dead_within_five_seconds_with_all_it_fetched(world, report):
    name, ours = world.ours.name("revoked"), world.ours
    ours.wire().image(name, "v1", [b"revoked"])
    path = f"{name}/manifests/v1"
    token_id, token = ours.account(PULL)
    wires = [ours.wire(token), ours.wire(token, basic=True), ours.wire(fetched(world, token, f"{name}:pull"))]
    for wire in wires:
        wire.expect(200, "GET", path)
    world.server.call("POST", f"/v1/tokens/{token_id}/revoke", {}, token=ours.token)
    revoked = time.monotonic()
    for wire in wires:
        assert dead_within(5 - (time.monotonic() - revoked), wire, path), "it still opens the registry after 5 s"


def an_expired_token_is_dead_with_all_it_fetched(world, report):
    name, ours = world.ours.name("expired"), world.ours
    ours.wire().image(name, "v1", [b"expired"])
    path = f"{name}/manifests/v1"
    _, token = ours.account(PULL, seconds=3)
    wires = [ours.wire(token), ours.wire(fetched(world, token, f"{name}:pull"))]
    for wire in wires:
        wire.expect(200, "GET", path)
    issued = time.monotonic()
    for wire in wires:
        assert dead_within(8 - (time.monotonic() - issued), wire, path), "it still opens the registry 5 s after its end"


def an_upload_belongs_to_its_repository(world, report):
    ours, name = world.ours, world.ours.name("uploads-a")
    wire, other = ours.wire(), ours.name("uploads-b")
    wire.blob(other, b"so that it is there")
    location = wire.start(name)
    assert wire.patch(location, b"mine", 0).status == 202
    upload = location.rsplit("/", 1)[1]
    theirs, guessed = world.theirs().wire(), uuid.UUID(int=uuid.UUID(upload).int ^ 1)
    theirs.blob(world.theirs().name("uploads"), b"so that it is there")
    for who, path in ((wire, f"{other}/blobs/uploads/{upload}"), (theirs, f"{name}/blobs/uploads/{upload}"),
                      (theirs, f"{world.theirs().name('uploads')}/blobs/uploads/{upload}"),
                      *((wire, f"{name}/blobs/uploads/{random}") for random in (uuid.uuid4(), uuid.uuid4(), guessed)),
                      (wire, f"{name}/blobs/uploads/{upload}/../{upload}"), (wire, f"{name}/blobs/uploads/..%2f{upload}")):
        for method in ("GET", "PATCH", "PUT", "DELETE"):
            query = f"?digest={sha256(b'mineevil')}" if method == "PUT" else ""
            got = who.ask(method, path + query, None if method == "GET" else b"evil", {"Content-Type": BYTES})
            assert got.status in ((404, 400) if ".." in path else (404,)), (method, path, got)
    assert wire.expect(204, "GET", location).headers["range"] == "0-3"
    assert wire.finish(location, sha256(b"mine")).status == 201


def two_writers_of_one_upload_do_not_mix(world, report):
    """The first has begun and pauses; a concurrent writer gets an error, and the final content is the first one's."""
    wire, name, first = world.ours.wire(), world.ours.name("writers"), os.urandom(200_000)
    location = wire.start(name)
    with socket.create_connection(("127.0.0.1", world.server.port), timeout=20) as line:
        head = (f"PATCH {location} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {wire.sent['Authorization']}\r\n"
                f"Content-Type: {BYTES}\r\nContent-Length: {len(first)}\r\n\r\n")
        line.sendall(head.encode() + first[:100_000])
        time.sleep(0.3)
        for got in (wire.patch(location, b"second"), wire.finish(location, sha256(b"second"), b"second")):
            assert got.status == 409, got
        line.sendall(first[100_000:])
        assert line.recv(100).startswith(b"HTTP/1.1 202"), "the first one was not answered"
    assert wire.finish(location, sha256(first)).status == 201
    assert wire.expect(200, "GET", f"{name}/blobs/{sha256(first)}").body == first


def a_page_of_a_billion_is_a_thousand(world, report):
    wire, name = world.ours.wire(), world.ours.name("page")
    wire.image(name, "v1", [b"page"])
    for path in (f"{name}/tags/list", "/v2/_catalog"):
        for n in ("1000000000", "99999999999999999999999999"):
            wire.expect(200, "GET", f"{path}?n={n}")
        for query in ("n=-1", "n=x", "last=" + "x" * 300):
            wire.expect(400, "GET", f"{path}?{query}")


def hostile_documents_are_refused_cheaply(world, report):
    wire, name = world.ours.wire(), world.ours.name("documents")
    config = config_of([])
    wire.blob(name, config)
    tiny = b'{"mediaType":"a/b","digest":"%s","size":0}' % sha256(b"").encode()
    head = b'{"schemaVersion":2,"mediaType":"%s","config":%s,' % (IMAGE.encode(), written(descriptor(CONFIG, config)))
    deep = 1_000_000
    documents = {
        "5 MiB": head + b'"layers":[],"annotations":{"a":"' + b"x" * (5 << 20) + b'"}}',
        "100,000 layers": head + b'"layers":[' + b",".join([tiny] * 100_000) + b"]}",
        "30,000 layers": head + b'"layers":[' + b",".join([tiny] * 30_000) + b"]}",
        "lists in lists": b"[" * deep + b"]" * deep,
        "objects in objects": head + b'"layers":[],"annotations":' + b'{"a":' * (deep // 2) + b"1" + b"}" * (deep // 2) + b"}",
        "deep where nobody looks": head + b'"layers":[],"other":' + b"[" * deep + b"]" * deep + b"}",
        "many annotations": head + b'"layers":[{"annotations":{' + b",".join(b'"%d":""' % n for n in range(300_000)) + b"}}]}",
    }
    before = world.reset_peak()
    for what, data in documents.items():
        begun = time.monotonic()
        try:
            got = wire.ask("PUT", f"{name}/manifests/hostile", data, {"Content-Type": IMAGE})
            assert got.status == (413 if len(data) > LONGEST else 400), f"{what}: {got}"
            assert got.codes() == ["MANIFEST_INVALID"], f"{what}: {got}"
        except OSError:
            # The server need not read an oversized body to its end.
            assert len(data) > LONGEST, what
        assert time.monotonic() - begun < 10, f"{what} took {time.monotonic() - begun:.0f} s"
    grown = world.memory()[1] - before
    report.say(f"hostile documents: {grown:.0f} MB more at the highest")
    assert grown < MOST_GROWTH, f"{grown:.0f} MB"
    wire.expect(404, "HEAD", f"{name}/manifests/hostile")


def a_layer_that_unpacks_to_much_is_bytes_here(world, report):
    wire, name = world.ours.wire(), world.ours.name("bomb")
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=6) as bomb:
        for _ in range(256):
            bomb.write(bytes(1 << 20))
    layer, before = packed.getvalue(), world.reset_peak()
    config = config_of([layer])
    for data in (config, layer):
        wire.blob(name, data)
    manifest = written({"schemaVersion": 2, "mediaType": IMAGE, "config": descriptor(CONFIG, config),
                        "layers": [descriptor("application/vnd.oci.image.layer.v1.tar+gzip", layer)]})
    wire.manifest(name, "v1", manifest)
    world.ours.call("POST", "artifacts/bomb:v1/verify", {})
    world.ours.call("GET", "artifacts/bomb:v1/references")
    grown = world.memory()[1] - before
    report.say(f"{len(layer) >> 10} KiB that unpack to 256 MiB: {grown:.0f} MB more at the highest")
    assert grown < MOST_GROWTH, f"{grown:.0f} MB"


def names_that_are_none_lead_nowhere(world, report):
    wire, before = world.ours.wire(), {path for path in world.data.parent.rglob("*")}
    digest, prefix = sha256(b"x"), world.ours.prefix
    for name in (f"{prefix}/../x", f"{prefix}/..", "../../etc", f"{prefix}/%2e%2e/x", f"{prefix}/UPPER", "UPPER/x",
                 f"{prefix}//x", f"/{prefix}/x", f"{prefix}/x/", f"{prefix}/{'a' * 256}", f"{prefix}/{'a/' * 200}b",
                 f"{prefix}/a..b", f"{prefix}/-a", f"{prefix}/a%00b", f"{prefix}/a%0ab", f"{prefix}/%C3%A9", f"{prefix}/a:b",
                 "x", prefix, ".", "%2e"):
        for method, path in (("GET", "manifests/v1"), ("PUT", "manifests/v1"), ("GET", f"blobs/{digest}"),
                             ("POST", "blobs/uploads/"), ("POST", f"blobs/uploads/?digest={digest}"), ("GET", "tags/list")):
            got = wire.ask(method, f"/v2/{name}/{path}", b"x" if method in ("PUT", "POST") else None)
            assert got.status in (400, 404, 405), (method, name, path, got)
    for tag in ("..", ".x", "-x", "a%2fb", "x" * 129, "%C3%A9", "a%00"):
        got = wire.ask("PUT", f"{prefix}/names/manifests/{tag}", b"{}", {"Content-Type": IMAGE})
        assert got.status in (400, 404), (tag, got)
    made = {path for path in world.data.parent.rglob("*") if path.is_file()} - before
    assert not [path for path in made if "registry" in path.parts], made


def a_blob_beyond_the_largest_is_refused(world, report):
    wire, name = world.ours.wire(), world.ours.name("large")
    data = os.urandom(world.largest + 1)
    for status, ask in ((413, lambda: wire.ask("POST", f"{name}/blobs/uploads/?digest={sha256(data)}", data)),
                        (413, lambda: wire.patch(wire.start(name), data)),
                        (201, lambda: wire.ask("POST", f"{name}/blobs/uploads/?digest={sha256(data[1:])}", data[1:]))):
        assert ask().status == status


CHECKS = [
    a_tag_is_moved_only_by_whoever_may, a_tag_that_moves_all_the_time_is_never_half_of_each, rights_are_what_the_account_has,
    the_token_of_another_project_opens_nothing, credentials_of_any_shape_are_survived,
    a_registry_token_is_for_what_it_was_fetched_for, a_revoked_token_is_dead_within_five_seconds_with_all_it_fetched,
    an_expired_token_is_dead_with_all_it_fetched, an_upload_belongs_to_its_repository, two_writers_of_one_upload_do_not_mix,
    a_page_of_a_billion_is_a_thousand,
    names_that_are_none_lead_nowhere, a_blob_beyond_the_largest_is_refused, hostile_documents_are_refused_cheaply,
    a_layer_that_unpacks_to_much_is_bytes_here,
]


def run(folder, report):
    largest = 2 << 20
    with World(folder, registry_largest_blob_bytes=str(largest)) as world:
        world.largest = largest
        hidden.run(world, report)
        ssrf.run(world, report)
        for check in CHECKS:
            report.check(check, world, report)
