"""Answers that are requested and never read: the server must neither hold them all nor wait for ever."""

import socket
import threading
import time

from content import referrer, repository
from fleet import allocation
from testbed import ATTACKERS, SERVER_MOST_MB, AttackSucceeded, peak_mb
from wire import Wire, sha256

from platform_under_test import Refused

# The attacker opens answers for so long; nothing read for twice the timeout ends a connection.
OPENING, TIMEOUT = 12, 5


def large_cells(testbed, of):
    """Cells whose list is a page of 4 MiB."""
    testbed.agent_most_mb = 256
    testbed.agent()
    allocation(testbed, of, "box")
    files = [{"path": f"/etc/large-{part}", "text": "x" * 250_000} for part in range(2)]
    for number in range(8):
        spec = {"root": {"host": ["/usr"]}, "files": files}
        until = time.monotonic() + 20
        while True:
            try:
                testbed.command(of, "cells", {"name": f"large-{number}", "allocation": "box", "spec": spec})
                break
            except Refused as refused:
                assert refused.status == 429 and time.monotonic() < until, refused
                time.sleep(0.2)


def large_content(testbed, of):
    """A page of referrers of 4 MiB, a blob that is served from memory, and one that is streamed."""
    wire, name = Wire(testbed.server.port, of["token"]), repository(of, "app")
    subject, manifest = wire.image(name, "v1", [b"a layer"])
    wire.blob(name, b"{}")
    for number in range(70):
        data = referrer(subject, len(manifest), number, 60 << 10)
        wire.manifest(name, sha256(data), data)
    short, long = wire.blob(name, b"s" * 1_000_000), wire.blob(name, b"l" * 8_000_000)
    return [f"/v2/{name}/referrers/{subject}", f"/v2/{name}/blobs/{short}", f"/v2/{name}/blobs/{long}"]


def ask_and_leave_unread(port, source, path, token):
    """Sends a request from a socket that takes almost nothing. The connection, and the status of its answer."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(20)
    try:
        connection.bind((source, 0))
        connection.connect(("127.0.0.1", port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        head = connection.recv(12)
        return connection, int(head[9:12]) if len(head) == 12 else 0
    except OSError:
        connection.close()
        return None, 0


def is_ended(connection):
    """Whether the server has given the connection up: what is left to read ends before the whole answer."""
    connection.settimeout(5)
    try:
        while True:
            if not connection.recv(1 << 20):
                return True
    except TimeoutError:
        return False
    except OSError:
        return True


def unread_answers(testbed):
    """One tenant asks for large answers by hundreds of connections, and reads none of them."""
    of, port = testbed.attacker, testbed.server.port
    large_cells(testbed, of)
    project = of["project"]["id"]
    paths = [f"/v1/projects/{project}/cells?page_size=200", *large_content(testbed, of),
             f"/v1/events/stream?project={project}&after=0"]
    open_answers, found, lock = [], {}, threading.Lock()
    until = time.monotonic() + OPENING

    def ask(number):
        round_number = 0
        while time.monotonic() < until:
            path = paths[(number + round_number) % len(paths)]
            connection, status = ask_and_leave_unread(port, ATTACKERS[number % len(ATTACKERS)], path, of["token"])
            round_number += 1
            with lock:
                found[status] = found.get(status, 0) + 1
                if status == 200:
                    open_answers.append((path, connection))
                    continue
            if connection:
                connection.close()
            time.sleep(0.05)

    askers = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(64)]
    try:
        with testbed.bystanders():
            for asker in askers:
                asker.start()
            for asker in askers:
                asker.join()
            testbed.note(f"answers: {dict(sorted(found.items()))}")
            peak = peak_mb(testbed.server.process.pid)
            if peak >= SERVER_MOST_MB:
                raise AttackSucceeded(f"the server held {peak:.0f} MB of answers to {len(open_answers)} requests: {found}")
            # Another tenant's answers are still there to be had.
            got = Wire(port, testbed.bystander["token"]).ask("GET", f"{repository(testbed.bystander, 'app')}/tags/list")
            assert got.status == 200 and got.json()["tags"] == ["v1"], got
            time.sleep(2 * TIMEOUT + 2)
            lists = [connection for path, connection in open_answers if "/cells" in path]
            assert lists, found
            kept = sum(not is_ended(connection) for connection in lists[:3])
            assert not kept, f"{kept} of 3 answers are still held after {2 * TIMEOUT} s"
    finally:
        for _, connection in open_answers:
            connection.close()


ATTACKS = (unread_answers,)
SETTINGS = {"unread_answers": {"http-timeout-seconds": str(TIMEOUT)}}
