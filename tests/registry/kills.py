"""`kill -9` during pushes: acknowledged content stays, nothing is ever half written, and unneeded content is collected."""

import http.client
import json
import random
import shutil
import sqlite3
import threading
import time

from checker import Shelf
from wire import BYTES, IMAGE, config_of, manifest_of, sha256
from world import World

PUSHERS = 8
LARGE = 20_000_000
# Seconds: longer than a push takes, even on a busy machine, so that no push loses its blobs before its manifest for ever.
GRACE = "3"
# Where the collector is made to die, as well as at any moment.
POINTS = ("garbage:row-gone", "garbage:file-gone")


class Shared:
    """State shared by all pushers: common layers, acknowledged content, and the stop flag."""

    def __init__(self, world, seed):
        self.world, self.stop, self.lock = world, threading.Event(), threading.Lock()
        chance = random.Random(seed)
        self.layers = [chance.randbytes(30_000) for _ in range(6)]
        self.large = [chance.randbytes(LARGE) for _ in range(2)]
        self.acknowledged, self.deleted, self.doubtful = {}, set(), set()
        self.repeats, self.refused = 0, []


class Pusher(threading.Thread):
    """Pushes one image after another, each until the server has acknowledged it."""

    def __init__(self, shared, number, seed):
        super().__init__(daemon=True)
        self.shared, self.number, self.chance = shared, number, random.Random(seed * 1000 + number)
        self.name_of = [shared.world.ours.name(f"r{number}") for number in range(3)]
        self.wire, self.made, self.error = None, 0, None

    def run(self):
        try:
            while not self.shared.stop.is_set():
                self.push()
        except Exception as error:  # noqa: BLE001
            self.error = error

    def push(self):
        layers = [self.chance.choice(self.shared.layers) if self.chance.random() < 0.5
                  else self.chance.randbytes(self.chance.randrange(1, 60_000)) for _ in range(self.chance.randrange(1, 4))]
        if self.made % 6 == self.number % 6:
            layers.append(self.chance.choice(self.shared.large))
        config = config_of(layers, author=f"{self.number}-{self.made}")
        manifest, name = manifest_of(config, layers), self.chance.choice(self.name_of)
        tag = f"p{self.number}-{self.made}"
        self.made += 1
        while True:
            try:
                self.wire = self.wire or self.shared.world.ours.wire(timeout=20)
                for data in (config, *layers):
                    self.blob(name, data)
                got = self.wire.ask("PUT", f"{name}/manifests/{tag}", manifest, {"Content-Type": IMAGE})
                if got.status == 201:
                    with self.shared.lock:
                        self.shared.acknowledged[name, sha256(manifest)] = manifest
                    # The server is to be killed, not to be kept busy.
                    time.sleep(0.1)
                    return
                # A blob that waited too long for its manifest is garbage: it is pushed once more.
                if got.status not in (404, 503):
                    self.shared.refused.append(f"{name}/manifests/{tag}: {got}")
            except (OSError, http.client.HTTPException):
                self.wire = None
            if self.shared.stop.is_set():
                return
            self.shared.repeats += 1
            time.sleep(0.05)

    def blob(self, name, data):
        """In one of the ways that there are."""
        digest, wire = sha256(data), self.wire
        if wire.ask("HEAD", f"{name}/blobs/{digest}").status == 200:
            return
        way = self.chance.randrange(4)
        if way == 0:
            got = wire.ask("POST", f"{name}/blobs/uploads/?digest={digest}", data, {"Content-Type": BYTES})
        elif way == 1:
            got = wire.ask("POST", f"{name}/blobs/uploads/?mount={digest}&from={self.chance.choice(self.name_of)}")
            if got.status == 202:
                got = wire.finish(got.headers["location"], digest, data)
        else:
            location, step = wire.start(name), max(1, len(data) // 3)
            for start in range(0, len(data), step):
                got = wire.patch(location, data[start:start + step], start)
                if got.status != 202:
                    break
            else:
                got = wire.finish(location, digest)
        if got.status != 201:
            if got.status < 500 and got.status != 404:
                self.shared.refused.append(f"{name} {digest}, way {way}: {got}")
            raise http.client.HTTPException(f"{got.status}")


class Deleter(threading.Thread):
    """Deletes every other manifest that was acknowledged, and repeats until it knows that it is gone."""

    def __init__(self, shared):
        super().__init__(daemon=True)
        self.shared, self.error = shared, None

    def run(self):
        try:
            seen = set()
            while not self.shared.stop.is_set():
                with self.shared.lock:
                    new = sorted(set(self.shared.acknowledged) - seen)
                for number, (name, digest) in enumerate(new):
                    seen.add((name, digest))
                    if number % 2 == 0:
                        self.delete(name, digest)
                time.sleep(0.05)
        except Exception as error:  # noqa: BLE001
            self.error = error

    def delete(self, name, digest):
        self.shared.doubtful.add((name, digest))
        while True:
            try:
                got = self.shared.world.ours.wire(timeout=20).ask("DELETE", f"{name}/manifests/{digest}")
                if got.status in (202, 404):
                    self.shared.deleted.add((name, digest))
                    self.shared.doubtful.discard((name, digest))
                    return
                if got.status < 500:
                    raise AssertionError(f"DELETE {name}@{digest}: {got}")
            except (OSError, http.client.HTTPException):
                pass
            if self.shared.stop.is_set():
                return
            time.sleep(0.05)


class Storm:
    """Concurrent pushers, and a server that is killed under them."""

    def __init__(self, world, seed, deleting=False):
        self.world, self.chance = world, random.Random(seed)
        self.shared = Shared(world, seed)
        self.people = [Pusher(self.shared, number, seed) for number in range(PUSHERS)]
        if deleting:
            self.people.append(Deleter(self.shared))
        self.struck = {point: 0 for point in POINTS}

    def rage(self, kills, points=()):
        for person in self.people:
            person.start()
        for number in range(kills):
            point = points[number % len(points)] if points and number % 3 else ""
            if point:
                self.strike(point)
            else:
                time.sleep(0.1 + self.chance.random() * 0.6)
                restarted(self.world)
        # They continue for a while after the last one, undisturbed.
        restarted(self.world)
        time.sleep(1)
        self.shared.stop.set()
        for person in self.people:
            person.join(60)
            assert not person.is_alive(), "somebody still waits for the server"
            assert person.error is None, person.error
        assert not self.shared.refused, self.shared.refused[:3]

    def strike(self, point):
        """Starts the server so that it aborts there, and waits until it has; one that nothing reaches is killed."""
        restarted(self.world, point)
        until = time.monotonic() + 6
        while time.monotonic() < until:
            if self.world.server.process.poll() is not None:
                self.struck[point] += 1
                return
            time.sleep(0.02)


def restarted(world, kill_at=""):
    """Kills the server and restarts it. A dead collector's lease lasts 45 seconds, which is too long to wait for here, so
    the lease is expired by hand."""
    if world.server.process.poll() is None:
        world.server.kill()
    database = sqlite3.connect(world.data / "muster.db", timeout=30)
    database.execute("UPDATE leases SET expires_at = 0 WHERE name = 'collector'")
    database.commit()
    database.close()
    world.again(engine_kill_at=kill_at)


def pulled(world, expected):
    """Pulls every manifest and all its blobs over the wire, and hashes them; the content of a repository once."""
    wire, faults, known = world.ours.wire(), [], set()
    for name, digest in sorted(expected):
        faults += wire.whole(name, digest, known)
    return faults


def settle(world, seconds):
    """Waits until the collector has found everything, or this long; then stops the server, and reads its shelf."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and Shelf(world.data).wasted():
        time.sleep(0.5)
    world.server.kill()
    return Shelf(world.data)


def what_was_acknowledged_survives_kills(world, report):
    kills = 100 if report.long else 15
    storm = Storm(world, report.seed)
    storm.rage(kills)
    shared = storm.shared
    report.say(f"{kills} kills: {len(shared.acknowledged)} pushes acknowledged, {shared.repeats} repeats")
    assert shared.acknowledged and shared.repeats, "the test did not test: nothing acknowledged, or nobody had to repeat"
    faults = pulled(world, shared.acknowledged)
    assert not faults, faults[:5]
    world.server.kill()
    faults = Shelf(world.data).lost()
    assert not faults, f"{len(faults)}: {faults[:5]}"
    world.again()


def garbage_goes_and_nothing_else_under_kills(world, report):
    kills = 60 if report.long else 7
    world.again(registry_garbage_grace_seconds=GRACE, registry_garbage_every_seconds="1")
    storm = Storm(world, report.seed + 1, deleting=True)
    storm.rage(kills, POINTS)
    shared = storm.shared
    stays = set(shared.acknowledged) - shared.deleted - shared.doubtful
    before = Shelf(world.data).bytes()
    shelf = settle(world, 60)
    report.say(f"{kills} kills, {storm.struck} of them in the collector: {len(shared.acknowledged)} pushed, "
               f"{len(shared.deleted)} deleted; {before >> 20} MiB became {shelf.bytes() >> 20}")
    tested = all(storm.struck.values()) and shared.deleted and stays
    assert tested, "the test did not test: no kill in the collector, or no deletion"
    faults = shelf.lost()
    assert not faults, f"lost: {len(faults)}: {faults[:5]}"
    faults = shelf.wasted()
    assert not faults, f"not given back after 60 s: {len(faults)}: {faults[:5]}"
    world.again()
    faults = pulled(world, stays)
    assert not faults, f"not pulled: {faults[:5]}"
    wire = world.ours.wire()
    back = [digest for name, digest in shared.deleted if wire.ask("HEAD", f"{name}/manifests/{digest}").status != 404]
    assert not back, f"deleted, and there again: {back[:5]}"


def copied(world, folder):
    """The registry's disk and database, to be spoilt."""
    shutil.copytree(world.data / "registry", folder / "registry")
    source, copy = sqlite3.connect(world.data / "muster.db"), sqlite3.connect(folder / "muster.db")
    source.backup(copy)
    source.close()
    return copy


def the_judge_finds_what_is_planted(world, report):
    world.server.kill()
    shelf = Shelf(world.data)
    (_, digest), content = next(iter(shelf.manifests.items()))
    blob = json.loads(content)["layers"][0]["digest"]

    def gone(copy, folder, file):
        file.unlink()

    def changed(copy, folder, file):
        file.chmod(0o600)
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(data)

    def orphan(copy, folder, file):
        copy.execute("INSERT INTO blobs (digest, size, file, created_at) VALUES (?, 1, 'x', 0)", (sha256(b"orphan"),))

    def unlinked(copy, folder, file):
        copy.execute("DELETE FROM repository_blobs WHERE digest = ?", (blob,))

    def forgotten(copy, folder, file):
        copy.execute("DELETE FROM manifest_blobs WHERE blob = ?", (blob,))

    def rowless(copy, folder, file):
        copy.execute("DELETE FROM blobs WHERE digest = ?", (blob,))

    def stray(copy, folder, file):
        (file.parent / f"{'0' * 64}-stray").write_bytes(b"x")

    def upload(copy, folder, file):
        (folder / "registry" / "uploads" / "left").write_bytes(b"x")

    for plant, words in (
        (gone, "names a file that is not there"), (changed, "are others"), (orphan, "names a file that is not there"),
        (unlinked, "which its repository does not have"), (forgotten, "nothing is written down"), (rowless, "there is no row"),
        (stray, "belongs to no row"), (upload, "is left"),
    ):
        folder = world.folder / f"planted-{plant.__name__}"
        folder.mkdir()
        copy = copied(world, folder)
        before = Shelf(folder)
        known = before.lost() + before.wasted()
        assert not known, known[:3]
        plant(copy, folder, before.files[before.blobs[blob][1]])
        copy.commit()
        copy.close()
        after = Shelf(folder)
        faults = after.lost() + after.wasted()
        assert any(words in fault for fault in faults), f"{plant.__name__} was not found: {faults}"
        shutil.rmtree(folder)
    world.again()


def when_everything_is_deleted_nothing_is_left(world, report):
    wire, shelf = world.ours.wire(), Shelf(world.data)
    for repository, digest in shelf.manifests:
        wire.expect(202, "DELETE", f"{world.ours.name(shelf.names[repository])}/manifests/{digest}")
    empty = settle(world, 60)
    report.say(f"everything deleted: {len(shelf.files)} files of {shelf.bytes() >> 20} MiB became {len(empty.files)}")
    assert shelf.files and not empty.files and not empty.blobs, empty.wasted()[:5]


def run(folder, report):
    with World(folder) as world:
        for check in (what_was_acknowledged_survives_kills, garbage_goes_and_nothing_else_under_kills,
                      the_judge_finds_what_is_planted, when_everything_is_deleted_nothing_is_left):
            report.check(check, world, report)
