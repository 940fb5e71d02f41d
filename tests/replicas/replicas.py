"""Two replicas on one PostgreSQL, one of them killed with SIGKILL every few seconds under load.

Acknowledged commands must have exactly one effect; unacknowledged ones at most one, and exactly one after a retry
with their key; a subscriber on the other replica must have received every event, in order, without a gap; and the
audit chain must verify offline and name each effect once.
"""

import argparse
import hashlib
import http.client
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from platform_under_test import BINARY, Folder, PostgresDatabase, Server, actors  # noqa: E402


class Subscriber(threading.Thread):
    """Follows the tenant's stream on the replica that stays, as a client would."""

    def __init__(self, server, tenant, token):
        super().__init__(daemon=True)
        self.server, self.tenant, self.token = server, tenant, token
        self.seen, self.faults, self.last = {}, [], 0
        self.stopped = threading.Event()

    def run(self):
        while not self.stopped.is_set():
            try:
                connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=30)
                connection.request("GET", f"/v1/events/stream?tenant={self.tenant}&after=0", headers={
                    "Authorization": f"Bearer {self.token}", "Last-Event-ID": str(self.last)})
                answer = connection.getresponse()
                for line in answer:
                    if line.startswith(b"data: "):
                        self.take(json.loads(line[6:]))
                    if self.stopped.is_set():
                        return
            except OSError as error:
                self.faults.append(f"the stream on the replica that stays broke: {error}")
                time.sleep(0.2)

    def take(self, event):
        if "sequence" not in event:
            self.faults.append(f"the stream said {event}")
            return
        if event["sequence"] != self.last + 1:
            self.faults.append(f"after {self.last} came {event['sequence']}")
        self.last = event["sequence"]
        if event["type"] == "dev.muster.token.issued.v1":
            name = event["data"]["name"]
            self.seen[name] = self.seen.get(name, 0) + 1


class Load(threading.Thread):
    """Issues tokens, each under a key of its own; repeats with the same key, on either replica, until acknowledged."""

    def __init__(self, servers, token, at, until):
        super().__init__(daemon=True)
        self.servers, self.token, self.at, self.until = servers, token, at, until
        self.acknowledged, self.pending, self.repeats, self.refused = {}, None, 0, []
        self.random = random.Random(at)

    def run(self):
        number = 0
        while time.monotonic() < self.until:
            self.issue(f"load-{self.at}-{number}")
            number += 1

    def issue(self, name):
        self.pending = name
        while True:
            server = self.random.choice(self.servers)
            try:
                status, headers, text = server.request(
                    "POST", "/v1/tokens", {"name": name}, self.token, {"Idempotency-Key": name}, timeout=10)
            except (OSError, http.client.HTTPException):
                self.repeats += 1
                time.sleep(0.02)
                continue
            if status == 201:
                self.acknowledged[name] = json.loads(text)["id"]
                self.pending = None
                return
            if status != 503:
                self.refused.append((status, text))
                return
            self.repeats += 1
            time.sleep(0.02)


def all_tokens(server, token):
    found, page = {}, ""
    while True:
        answer = server.call("GET", f"/v1/tokens?page_size=200{page}", token=token)
        for item in answer["items"]:
            found.setdefault(item["name"], []).append(item["id"])
        if "next_page_token" not in answer:
            return found
        page = f"&page_token={answer['next_page_token']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args()
    with Folder() as folder, PostgresDatabase() as database:
        stays = Server(folder, database)
        stays.start()
        dies = Server(folder, database)
        dies.start()
        try:
            return judge(options, stays, dies, folder)
        finally:
            for server in (dies, stays):
                server.stop()


def judge(options, stays, dies, folder):
    tenant, _, tokens = actors(stays)
    admin = tokens["tenant_admin"]
    subscriber = Subscriber(stays, tenant["id"], admin)
    subscriber.start()
    until = time.monotonic() + options.seconds
    loads = [Load([stays, dies], admin, at, until) for at in range(options.clients)]
    for load in loads:
        load.start()
    kills = 0
    chaos = random.Random(7)
    while time.monotonic() < until - 1:
        time.sleep(chaos.uniform(1.5, 4))
        dies.kill()
        kills += 1
        time.sleep(chaos.uniform(0, 0.5))
        dies.start()
    for load in loads:
        load.join(60)
    acknowledged = {name: made for load in loads for name, made in load.acknowledged.items()}
    repeats = sum(load.repeats for load in loads)
    faults = [f"refused: {refusal}" for load in loads for refusal in load.refused]
    faults += [f"{load.name} still waits for {load.pending}" for load in loads if load.pending]

    # Every acknowledged effect is there, once, and matches its acknowledgement.
    found = all_tokens(stays, admin)
    for name, made in acknowledged.items():
        if found.get(name) != [made]:
            faults.append(f"{name}: acknowledged as {made}, found {found.get(name)}")
    made_by_load = {name for name in found if name.startswith("load-")}
    faults += [f"{name} exists although nobody was told so" for name in made_by_load - set(acknowledged)]

    # The subscriber has received each exactly once.
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and len(subscriber.seen.keys() & acknowledged.keys()) < len(acknowledged):
        time.sleep(0.1)
    subscriber.stopped.set()
    faults += subscriber.faults
    faults += [f"{name} was told {subscriber.seen.get(name, 0)} times" for name in acknowledged
               if subscriber.seen.get(name, 0) != 1]

    # The audit names each effect once, and the chain holds, by the offline verifier and by three lines of our own.
    _, _, text = stays.request("GET", f"/v1/audit/export?tenant={tenant['id']}", token=admin, timeout=120)
    previous, entries = "0" * 64, {}
    for number, line in enumerate(text.decode().splitlines(), 1):
        raw = line[line.index('"record":') + 9:-1]
        previous = hashlib.sha256(f"{previous}\n{number}\n{raw}".encode()).hexdigest()
        entry = json.loads(line)
        if entry["hash"] != previous:
            faults.append(f"the chain breaks at {number}")
            break
        if entry["record"]["action"] == "token.issue":
            target = entry["record"]["target"]["id"]
            entries[target] = entries.get(target, 0) + 1
    faults += [f"{made} has {entries.get(made, 0)} audit entries" for made in acknowledged.values()
               if entries.get(made, 0) != 1]
    export = Path(folder) / "export.ndjson"
    export.write_bytes(text)
    verified = subprocess.run([BINARY, "audit", "verify", str(export)], capture_output=True, text=True)
    if verified.returncode != 0:
        faults.append(f"muster audit verify: {verified.stdout}{verified.stderr}")

    print(f"{len(acknowledged)} commands acknowledged by {options.clients} clients in {options.seconds} s; {kills} kills, "
          f"{repeats} repeats; {subscriber.last} events seen live; {len(text.splitlines())} audit entries chained")
    if not acknowledged or not kills or not repeats:
        faults.append("the test did not test: nothing acknowledged, killed or repeated")
    for fault in faults[:20]:
        print("FAULT:", fault)
    print(f"replicas: {0 if faults else 1} passed, {1 if faults else 0} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
