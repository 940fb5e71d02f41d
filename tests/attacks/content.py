"""Attacks through the registry: lists that cost memory, false sizes, damaged files."""

import http.client
import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "registry"))
sys.path.append(str(Path(__file__).resolve().parent.parent / "cells"))
from external import Liar  # noqa: E402
from wire import CONFIG, EMPTY, IMAGE, LAYER, Wire, config_of, descriptor, sha256, written  # noqa: E402


def repository(of, name):
    return f"{of['tenant']['slug']}.work/{name}"


def referrer(subject, size, number, length):
    """A manifest that refers to another, with this many bytes of annotations."""
    empty = b"{}"
    return written({
        "schemaVersion": 2, "mediaType": IMAGE, "artifactType": "application/vnd.example.note", "config": descriptor(EMPTY, empty),
        "layers": [descriptor(EMPTY, empty)], "subject": {"mediaType": IMAGE, "digest": subject, "size": size},
        "annotations": {f"note.{number}": "x" * length},
    })


def referrers(testbed):
    """Referrers with large annotations, read by four at once."""
    of, wire = testbed.attacker, Wire(testbed.server.port, testbed.attacker["token"])
    name = repository(of, "app")
    subject, manifest = wire.image(name, "v1", [b"a layer"])
    wire.blob(name, b"{}")
    pages, faults, lock = [], [], threading.Lock()

    def read():
        reader, path = Wire(testbed.server.port, of["token"]), f"{name}/referrers/{subject}"
        seen = 0
        while path:
            got = reader.ask("GET", path)
            if got.status == 429:
                continue
            if got.status != 200:
                faults.append(str(got))
                return
            seen += len(got.json()["manifests"])
            with lock:
                pages.append(len(got.body))
            link = got.headers.get("link")
            path = link.split(";")[0].strip("<>") if link else None
        if seen != 400:
            faults.append(f"{seen} of 400 referrers are listed")

    with testbed.bystanders():
        for number in range(4):
            data = referrer(subject, len(manifest), number, 3 << 20)
            got = wire.ask("PUT", f"{name}/manifests/{sha256(data)}", data, {"Content-Type": IMAGE})
            assert got.status in (400, 413), f"3 MiB of annotations are taken: {got}"
        for number in range(400):
            data = referrer(subject, len(manifest), number, 60 << 10)
            wire.manifest(name, sha256(data), data)
        readers = [threading.Thread(target=read, daemon=True) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
    assert not faults, faults[:3]
    testbed.note(f"{len(pages)} pages, the largest {max(pages) / 1024:.0f} KiB")
    assert max(pages) <= 5 << 20, f"a page of {max(pages)} bytes"


def false_size(testbed):
    """Another tenant declares a false size for a digest that the bystander pulls through from another registry."""
    liar = Liar()
    try:
        layer, config = b"a public base layer " * 1000, config_of([])

        def publish(of, size):
            name = f"of-{of['tenant']['slug']}"
            manifest = written({"schemaVersion": 2, "mediaType": IMAGE, "config": descriptor(CONFIG, config),
                                "layers": [{"mediaType": LAYER, "digest": sha256(layer), "size": size}]})
            liar.says[f"/v2/{name}/manifests/{sha256(manifest)}"] = (200, {"Content-Type": IMAGE}, [manifest])
            for data in (config, layer):
                liar.says[f"/v2/{name}/blobs/{sha256(data)}"] = (200, {}, [data])
            testbed.command(of, "artifacts", {
                "repository": "base", "reference": sha256(manifest),
                "external": {"registry": f"127.0.0.1:{liar.port}", "repository": name}})

        with testbed.bystanders():
            publish(testbed.bystander, len(layer))
            publish(testbed.attacker, 1)
            mine = Wire(testbed.server.port, testbed.attacker["token"])
            assert mine.ask("GET", f"{repository(testbed.attacker, 'base')}/blobs/{sha256(layer)}").status != 200
            for _ in range(3):
                got = Wire(testbed.server.port, testbed.bystander["token"]).ask(
                    "GET", f"{repository(testbed.bystander, 'base')}/blobs/{sha256(layer)}")
                assert got.status == 200 and got.body == layer, got
    finally:
        liar.stop()


def blob_files(testbed, digest):
    hexadecimal = digest.split(":")[1]
    return [path for path in (testbed.server.data / "registry" / "blobs").rglob("*") if path.is_file() and hexadecimal in path.name]


def pulled(testbed, of, name, digest):
    """Status and content of a pull; a transfer that is cut off has neither."""
    try:
        got = Wire(testbed.server.port, of["token"]).ask("GET", f"{name}/blobs/{digest}")
        return got.status, got.body
    except (OSError, http.client.HTTPException):
        return 0, b""


def damaged_blob(testbed):
    """A blob that two tenants have is damaged on disk: it is not served as whole, and a push by either repairs it for both."""
    first, second = testbed.attacker, testbed.bystander
    names = {id(of): repository(of, "data") for of in (first, second)}
    # Up to 1 MiB a read compares the digest. Beyond, it compares the length, and leaves the digest to the scrubber and to the
    # reader, so a flipped bit of the fourth may be served; a push must repair it all the same.
    for number, (damage, times) in enumerate((("bit", 50_000), ("cut", 50_000), ("gone", 50_000), ("bit", 300_000), ("cut", 300_000))):
        data = f"content {number} ".encode() * times
        with testbed.bystanders():
            for of in (first, second):
                digest = Wire(testbed.server.port, of["token"]).blob(names[id(of)], data)
            files = blob_files(testbed, digest)
            assert len(files) == 1, files
            if damage == "bit":
                content = bytearray(data)
                content[len(content) // 2] ^= 1
                files[0].chmod(0o600)
                files[0].write_bytes(content)
            elif damage == "cut":
                files[0].chmod(0o600)
                files[0].write_bytes(data[:5000])
            else:
                files[0].unlink()
            for of in (first, second):
                status, body = pulled(testbed, of, names[id(of)], digest)
                assert status != 200 or (damage == "bit" and len(data) > 1 << 20), f"{damage}: served, {status}, {len(body)} bytes"
            Wire(testbed.server.port, second["token"]).blob(names[id(second)], data)
            for of in (first, second):
                status, body = pulled(testbed, of, names[id(of)], digest)
                assert status == 200 and body == data, f"{damage}: not repaired by a push, {status}, {len(body)} bytes"


ATTACKS = (referrers, false_size, damaged_blob)
SETTINGS = {"false_size": {"registry-allow-private": "true"}}
