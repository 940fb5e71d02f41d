"""Layers that are larger than the server's memory may become: pushed both ways and pulled, with an eye on its peak."""

import hashlib
import http.client
import os
import time
from concurrent.futures import ThreadPoolExecutor

from wire import BYTES
from world import World

BLOCK = 1 << 20
BLOCKS = 1024
# A chunk of an upload, in blocks.
CHUNK = 128
# Megabytes that one transfer, or eight, may add to an idle server.
MOST_GROWTH = 64


class Stream:
    """Content that is made while it is sent: one random block, again and again, each time with its number."""

    def __init__(self, blocks):
        self.block, self.blocks = os.urandom(BLOCK - 8), blocks
        hashed = hashlib.sha256()
        for part in self.parts():
            hashed.update(part)
        self.digest = "sha256:" + hashed.hexdigest()

    def parts(self, first=0, count=None):
        for number in range(first, min(self.blocks, first + (count or self.blocks))):
            yield number.to_bytes(8, "big") + self.block

    def __len__(self):
        return self.blocks * BLOCK


def pulled(world, name, digest):
    """Reads a blob to nowhere; gives its digest."""
    connection = http.client.HTTPConnection("127.0.0.1", world.server.port, timeout=120)
    connection.request("GET", f"/v2/{name}/blobs/{digest}", headers={"Authorization": f"Bearer {world.ours.token}"})
    answer, hashed = connection.getresponse(), hashlib.sha256()
    assert answer.status == 200, answer.status
    while part := answer.read(BLOCK):
        hashed.update(part)
    connection.close()
    return "sha256:" + hashed.hexdigest()


def watched(world, report, what, act):
    """Runs it, and compares the server's peak with the one before."""
    before, begun = world.reset_peak(), time.monotonic()
    act()
    peak = world.memory()[1]
    report.say(f"{what}: {before:.0f} MB before, {peak:.0f} MB at the highest, {time.monotonic() - begun:.1f} s")
    assert peak - before < MOST_GROWTH, f"{what}: {peak - before:.0f} MB more"


def run(folder, report):
    with World(folder) as world:
        name, wire = world.ours.name("large"), world.ours.wire(timeout=120)
        with ThreadPoolExecutor(2) as threads:
            streams = dict(zip(("whole", "chunked"), threads.map(Stream, (BLOCKS, BLOCKS))))

        def whole():
            stream = streams["whole"]
            wire.expect(201, "POST", f"{name}/blobs/uploads/?digest={stream.digest}", stream.parts(),
                        {"Content-Type": BYTES, "Content-Length": str(len(stream))})

        def chunked():
            stream, location = streams["chunked"], wire.start(name)
            for first in range(0, BLOCKS, CHUNK):
                start, length = first * BLOCK, CHUNK * BLOCK
                got = wire.expect(202, "PATCH", location, stream.parts(first, CHUNK), {
                    "Content-Type": BYTES, "Content-Length": str(length), "Content-Range": f"{start}-{start + length - 1}"})
                location = got.headers["location"]
            assert wire.finish(location, stream.digest).status == 201

        def pull():
            for stream in streams.values():
                assert pulled(world, name, stream.digest) == stream.digest

        def eight():
            small, wrong = [Stream(32) for _ in range(8)], []

            def both(stream):
                mine = world.ours.wire()
                mine.expect(201, "POST", f"{name}/blobs/uploads/?digest={stream.digest}", stream.parts(),
                            {"Content-Type": BYTES, "Content-Length": str(len(stream))})
                if pulled(world, name, stream.digest) != stream.digest:
                    wrong.append(stream.digest)

            with ThreadPoolExecutor(8) as threads:
                list(threads.map(both, small))
            assert not wrong, wrong

        def a_gibibyte_in_one_request_fits():
            watched(world, report, "1 GiB in one request", whole)

        def a_gibibyte_in_chunks_fits():
            watched(world, report, "1 GiB in chunks", chunked)

        def pulling_both_fits():
            watched(world, report, "pulling both", pull)

        def eight_at_once_fit():
            watched(world, report, "eight of 32 MiB at once, there and back", eight)

        for check in (a_gibibyte_in_one_request_fits, a_gibibyte_in_chunks_fits, pulling_both_fits, eight_at_once_fit):
            report.check(check)
