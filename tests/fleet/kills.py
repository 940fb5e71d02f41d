"""Two replicas and two fleets under a tenant's load, killed, cut off and stopped at random."""

import os
import random
import signal
import threading
import time

from judge import judge
from platform_under_test import Refused
from world import Agents, Replica, Tenant, wait_for_end


class Users(threading.Thread):
    """A user that keeps submitting requests, on any replica that responds."""

    def __init__(self, tenant, server, seed, until):
        super().__init__(daemon=True)
        self.tenant, self.server, self.random, self.until = tenant, server, random.Random(seed), until
        self.seed, self.asked, self.refused, self.error = seed, 0, 0, None

    def run(self):
        try:
            mine = []
            while not self.until.is_set():
                self.asked += 1
                if not mine or (len(mine) < 6 and self.random.random() < 0.5):
                    mine.append(self.tenant.create(
                        self.server, f"u{self.seed}-{self.asked}", gpus=self.random.choice([0, 1, 1, 2, 4]), cpus=2)["subject_id"])
                else:
                    verb = self.random.choice(["release", "release", "restart", "resize"])
                    body = {"gpus": self.random.choice([0, 1, 2]), "cpus": self.random.choice([1, 3])} if verb == "resize" else {}
                    allocation = self.random.choice(mine)
                    try:
                        self.tenant.act(self.server, allocation, verb, body)
                        if verb == "release":
                            mine.remove(allocation)
                    except Refused:
                        # It is not active any more, or not yet.
                        self.refused += 1
                        if self.random.random() < 0.3:
                            mine.remove(allocation)
                time.sleep(self.random.random() * 0.2)
        except Exception as error:  # noqa: BLE001
            self.error = error


class Stage:
    """Two replicas on one PostgreSQL, or one on SQLite, with a fleet each."""

    def __init__(self, folder, database, settings, nodes=6):
        self.replicas = []
        for name in "ab" if database else "a":
            data = folder / name
            data.mkdir()
            if name == "b":
                for file in ("root.key", "operator.token"):
                    (data / file).write_bytes((folder / "a" / file).read_bytes())
                    (data / file).chmod(0o600)
            # Servers of one database share the registry's content.
            replica = Replica(data, database, {**settings, "registry-dir": str(folder / "registry")})
            replica.start()
            self.replicas.append(replica)
        self.agents = []
        for name, replica in zip("ab", self.replicas):
            agents = Agents(folder, name, nodes, 8, ["--latency-ms", "5..40", "--fail-rate", "0.01"])
            agents.start(replica)
            self.agents.append(agents)
        self.tenant = Tenant(self.replicas[0])

    def any(self):
        up = [replica for replica in self.replicas if replica.is_up()]
        return random.choice(up or self.replicas)

    def heal(self):
        for replica in self.replicas:
            if replica.is_up():
                os.kill(replica.process.pid, signal.SIGCONT)
            else:
                replica.start()
        for agents, replica in zip(self.agents, self.replicas):
            if not agents.is_up():
                agents.start(replica)
            agents.tell("heal *")
            agents.tell("revive *")
            agents.tell("fail * 0")

    def settle(self, seconds=120):
        """Waits until only blocked operations are in progress."""
        until = time.time() + seconds
        while time.time() < until:
            try:
                moving = 0
                for state in ("accepted", "running", "verifying", "compensating"):
                    page = self.replicas[0].call("GET", f"/v1/operations?state={state}&page_size=200")
                    moving += len(page["items"])
                if not moving:
                    return
            except OSError:
                pass
            time.sleep(0.5)

    def close(self):
        for agents in self.agents:
            if agents.is_up():
                agents.kill()
        for replica in self.replicas:
            if replica.is_up():
                os.kill(replica.process.pid, signal.SIGCONT)
                replica.kill()

    def metric(self, name):
        total = 0
        for replica in self.replicas:
            status, _, text = replica.request("GET", "/metrics")
            assert status == 200
            for line in text.decode().splitlines():
                if line.startswith(name + " "):
                    total += float(line.split()[1])
        return int(total)


def killed(folder, database, kills, seed, report):
    """Kills at random: servers, agent processes, single agents, links."""
    chance = random.Random(seed)
    stage = Stage(folder, database, {})
    stop = threading.Event()
    users = [Users(stage.tenant, stage.any, seed * 100 + number, stop) for number in range(3)]
    done = {"server": 0, "agents": 0, "node": 0, "link": 0}
    try:
        for user in users:
            user.start()
        for _ in range(kills):
            time.sleep(chance.random() * 0.5)
            what = chance.choice(["server", "agents", "node", "node", "link"])
            if what == "server":
                replica = chance.choice(stage.replicas)
                replica.kill()
                time.sleep(chance.random() * 0.5)
                replica.start()
            else:
                agents = chance.choice(stage.agents)
                number = chance.randrange(agents.nodes)
                if what == "agents":
                    agents.kill()
                    agents.start(stage.replicas[stage.agents.index(agents)])
                elif what == "node":
                    agents.tell(f"die {number}")
                    time.sleep(chance.random() * 0.3)
                    agents.tell(f"revive {number}")
                else:
                    agents.tell(f"partition {number}")
                    time.sleep(chance.random() * 0.5)
                    agents.tell(f"heal {number}")
            done[what] += 1
        stop.set()
        for user in users:
            user.join(60)
            assert user.error is None, user.error
        stage.heal()
        stage.settle()
        faults, seen = judge(stage.replicas[0], stage.tenant, stage.agents)
        asked = sum(user.asked for user in users)
        report(f"{kills} random kills ({done}), {asked} requests", faults, seen)
        # Whatever is left can be given back: nothing is stuck.
        for allocation in stage.tenant.all(stage.replicas[0]):
            if allocation["state"] not in ("released", "failed"):
                try:
                    stage.tenant.act(lambda: stage.replicas[0], allocation["id"], "release")
                except Refused as refused:
                    assert refused.status == 409, refused
        stage.settle()
        faults, seen = judge(stage.replicas[0], stage.tenant, stage.agents)
        left = {state for state in seen if state in ("requested", "placing", "provisioning", "active")}
        report("everything given back", faults + [f"still {state}" for state in left], seen)
    finally:
        stop.set()
        stage.close()


def paused(folder, database, pauses, seed, report):
    """Lease holders paused past their lease and resumed: their later writes must be rejected."""
    chance = random.Random(seed)
    stage = Stage(folder, database, {"engine-lease-milliseconds": "150"}, nodes=4)
    stop = threading.Event()
    users = [Users(stage.tenant, lambda: stage.replicas[0] if stopped[0] != 0 else stage.replicas[1], seed + number, stop)
             for number in range(4)]
    stopped = [None]
    try:
        for user in users:
            user.start()
        time.sleep(1)
        for _ in range(pauses):
            index = chance.randrange(2)
            stopped[0] = index
            process = stage.replicas[index].process
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(0.2 + chance.random() * 0.15)
            os.kill(process.pid, signal.SIGCONT)
            stopped[0] = None
            time.sleep(0.02 + chance.random() * 0.1)
        stop.set()
        for user in users:
            user.join(60)
            assert user.error is None, user.error
        stage.heal()
        stage.settle()
        faults, seen = judge(stage.replicas[0], stage.tenant, stage.agents)
        fenced = stage.metric("muster_fenced_total")
        if fenced == 0:
            faults.append("no write with an old generation was refused: the pauses hit nothing")
        report(f"{pauses} pauses past the lease, {fenced} writes refused", faults, seen)
    finally:
        stop.set()
        stage.close()


__all__ = ["killed", "paused", "wait_for_end"]
