"""Addresses of other registries, chosen by a tenant, that lead to the internal network: the server never connects to them."""

import socket
import threading
import time

from wire import sha256


class Trap:
    """Listens on every loopback address and counts connections."""

    def __init__(self):
        self.came, self.sockets = [], []
        first = socket.create_server(("127.0.0.1", 0))
        self.port = first.getsockname()[1]
        self.sockets.append(first)
        try:
            self.sockets.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))
        except OSError:
            # A machine without IPv6 has one way less to be tricked.
            pass
        self.threads = [threading.Thread(target=self.wait, args=(listening,), daemon=True) for listening in self.sockets]
        for thread in self.threads:
            thread.start()

    def wait(self, listening):
        while True:
            try:
                line, _ = listening.accept()
            except OSError:
                return
            self.came.append(line)
            line.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Wakes waiting threads first: a file descriptor that was closed under them could soon be another socket's.
        for listening in self.sockets:
            listening.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(10)
        for listening in self.sockets:
            listening.close()


def hosts(port):
    """Ways to write an address that is inside."""
    inside = [
        "localhost", "LOCALHOST", "localhost.", "registry.localhost", "localhost.localdomain", "ip6-localhost",
        socket.gethostname(), "127.0.0.1", "127.1", "0", "2130706433", "0x7f.1", "0177.0.0.1", "127.0.0.1.", "[::1]", "[::]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[::127.0.0.1]", "[2002:7f00:1::]",
        "user:password@127.0.0.1", "registry.example@127.0.0.1", "user:password@localhost", "http://127.0.0.1",
        "https://127.0.0.1",
    ]
    elsewhere = [
        "169.254.169.254", "169.254.169.254:80", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "0.0.0.0", "[fe80::1]",
        "[fd00::1]", "metadata.google.internal", "user:password@registry.example", "unix:/run/docker.sock",
        "unix:///run/docker.sock", "/run/docker.sock", "file:///etc/passwd", "", " ", ".", "..", "a b", "\n127.0.0.1",
    ]
    tails = [f"127.0.0.1:{port}{tail}" for tail in ("/path", "?query", "#fragment", "\\@registry.example")]
    return [f"{host}:{port}" for host in inside] + elsewhere + tails


def publish(world, registry, repository="library/x"):
    external = {"registry": registry, "repository": repository}
    body = {"repository": "outside", "reference": sha256(b"outside"), "external": external}
    begun = time.monotonic()
    status, _, text = world.server.request(
        "POST", f"/v1/projects/{world.ours.id}/artifacts", body, token=world.ours.token, timeout=40,
        headers={"Idempotency-Key": sha256(f"{registry} {repository} {begun}".encode())[7:39]})
    return status, text.decode(), time.monotonic() - begun


def addresses_inside_are_refused_without_a_call(world, trap):
    faults = []
    for registry in hosts(trap.port):
        status, text, seconds = publish(world, registry)
        if not 400 <= status < 500 and "external_registry" not in text:
            faults.append(f"{registry!r}: {status} {text}")
        if seconds > 5:
            faults.append(f"{registry!r} took {seconds:.0f} s: somebody was called")
    for repository in ("../../v1/tenants", "x/../../y", "x?y", "x#y", "%2e%2e", "X", "x//y", ""):
        status, text, _ = publish(world, f"127.0.0.1:{trap.port}", repository)
        if not 400 <= status < 500:
            faults.append(f"the repository {repository!r}: {status} {text}")
    time.sleep(0.2)
    assert not trap.came, f"somebody came {len(trap.came)} times"
    assert not faults, "\n          ".join(faults)


def a_refused_reference_leaves_nothing_behind(world, trap):
    names = [found["name"] for found in world.ours.call("GET", "repositories?page_size=200")["items"]]
    assert "outside" not in names, "there is a repository that nobody pushed to"


def the_trap_would_have_seen_it(world, trap):
    """Otherwise the check above proves nothing."""
    before = len(trap.came)
    socket.create_connection(("127.0.0.1", trap.port)).close()
    until = time.monotonic() + 5
    while len(trap.came) == before and time.monotonic() < until:
        time.sleep(0.01)
    assert len(trap.came) == before + 1


def run(world, report):
    with Trap() as trap:
        report.check(addresses_inside_are_refused_without_a_call, world, trap)
        report.check(a_refused_reference_leaves_nothing_behind, world, trap)
        report.check(the_trap_would_have_seen_it, world, trap)
