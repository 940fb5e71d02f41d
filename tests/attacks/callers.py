"""Attacks by callers of the API: connections, bodies, logins, credentials."""

import http.client
import selectors
import socket
import threading
import time
import uuid

from testbed import ATTACKER, ATTACKERS


def dial(port, source):
    connection = socket.socket()
    connection.settimeout(20)
    connection.bind((source, 0))
    connection.connect(("127.0.0.1", port))
    return connection


def status_of(data):
    """The status of an answer's first line; 0 while there is none."""
    words = data[:64].split(b" ")
    return int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/") else 0


def answers(connections, seconds):
    """Responses to the connections within this time: status → count. 0 is no response."""
    waiting, found = selectors.DefaultSelector(), {}
    for connection in connections:
        waiting.register(connection, selectors.EVENT_READ)
    until = time.monotonic() + seconds
    left = len(connections)
    while left and time.monotonic() < until:
        for key, _ in waiting.select(0.5):
            waiting.unregister(key.fileobj)
            left -= 1
            try:
                status = status_of(key.fileobj.recv(4096))
            except OSError:
                status = 0
            found[status] = found.get(status, 0) + 1
    waiting.close()
    if left:
        found[0] = found.get(0, 0) + left
    return found


def accounts(testbed, of, count, permissions):
    """Returns tokens of this many service accounts: a tenant can create as many actors as it likes."""
    secrets = []
    for number in range(count):
        made = testbed.command(of, "service-accounts", {"name": f"robot-{number}", "permissions": permissions})
        issued = testbed.server.call("POST", "/v1/tokens", {"name": "test", "service_account": made["id"]}, token=of["token"])
        secrets.append(issued["secret"])
    return secrets


def event_streams(testbed):
    """One tenant opens as many event streams as it can, as many actors and from several addresses."""
    attempts, port, of = 4200, testbed.server.port, testbed.attacker
    tokens = [of["token"], *accounts(testbed, of, 11, ["event.list", "event.stream"])]
    connections, found = [], {}
    try:
        with testbed.bystanders():
            for number in range(attempts):
                try:
                    connection = dial(port, ATTACKERS[number % len(ATTACKERS)])
                    connection.sendall(f"GET /v1/events/stream?project={of['project']['id']} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                                       f"Authorization: Bearer {tokens[number % len(tokens)]}\r\n\r\n".encode())
                    connections.append(connection)
                except OSError:
                    found["not taken"] = found.get("not taken", 0) + 1
            for status, count in answers(connections, 10).items():
                found[status] = found.get(status, 0) + count
            time.sleep(3)
        testbed.note(f"{attempts} attempts: {found}")
        # 32 for an actor and 256 for a tenant; the rest is refused, not kept waiting.
        assert 32 < found.get(200, 0) <= 256, found
        assert found.get(429, 0) > 0 and set(found) <= {200, 429, 0, "not taken"}, found
    finally:
        for connection in connections:
            connection.close()


def slow_bodies(testbed):
    """Callers without a credential announce a body that never comes."""
    port, connections = testbed.server.port, []
    email, password = testbed.person(testbed.bystander)
    try:
        with testbed.bystanders():
            for number in range(256):
                connection = dial(port, ATTACKERS[number % len(ATTACKERS)])
                connection.sendall(f"POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
                                   f"Idempotency-Key: {uuid.uuid4().hex}\r\nContent-Length: 200\r\n\r\n{{".encode())
                connections.append(connection)
            # A person has one login in five seconds from an address, so each of these comes from another.
            for number in range(2, 5):
                status, body = testbed.login(testbed.bystander["tenant"]["id"], email, password, source=f"127.0.0.{number}")
                assert status == 201, (status, body)
                time.sleep(1)
    finally:
        for connection in connections:
            connection.close()


def wrong_logins(testbed):
    """Wrong passwords for a person from one address: the person logs in from another."""
    tenant = testbed.bystander["tenant"]["id"]
    email, password = testbed.person(testbed.bystander)
    ended, found = threading.Event(), {}

    def guess():
        while not ended.is_set():
            status, _ = testbed.login(tenant, email, "not the password", source=ATTACKER)
            found[status] = found.get(status, 0) + 1
            ended.wait(0.05)

    guessers = [threading.Thread(target=guess, daemon=True) for _ in range(4)]
    with testbed.bystanders():
        for guesser in guessers:
            guesser.start()
        try:
            for number in range(2, 8):
                time.sleep(1)
                status, body = testbed.login(tenant, email, password, source=f"127.0.0.{number}")
                assert status == 201, f"the person is locked out: {status} {body}; the guesses: {found}"
        finally:
            ended.set()
            for guesser in guessers:
                guesser.join()
    testbed.note(f"guesses: {found}")
    assert set(found) <= {401, 429} and found.get(429, 0) > 0, f"guessing is not slowed down: {found}"


def bad_credentials(testbed):
    """Credentials that do not hold, by the thousand, at the API and at the registry."""
    found, lock = {}, threading.Lock()

    def probe(path):
        connection = http.client.HTTPConnection("127.0.0.1", testbed.server.port, timeout=20, source_address=(ATTACKER, 0))
        for number in range(500):
            try:
                connection.request("GET", path, headers={"Authorization": f"Bearer mst_{uuid.uuid4().hex}{number}"})
                answer = connection.getresponse()
                answer.read()
                status = answer.status
            except (OSError, http.client.HTTPException):
                connection.close()
                status = 0
            with lock:
                found[status] = found.get(status, 0) + 1
        connection.close()

    paths = ["/v1/whoami", "/v1/whoami", "/v2/", f"/v2/{testbed.bystander['tenant']['slug']}.work/app/tags/list"]
    probers = [threading.Thread(target=probe, args=(path,), daemon=True) for path in paths]
    with testbed.bystanders():
        for prober in probers:
            prober.start()
        for prober in probers:
            prober.join()
        # Another address is not concerned.
        status, _, _ = testbed.server.request("GET", "/v1/whoami", token="mst_nothing", source="127.0.0.2")
        assert status == 401, status
    testbed.note(f"2,000 probes: {found}")
    assert set(found) <= {401, 429} and found.get(429, 0) > found.get(401, 0), found


ATTACKS = (event_streams, slow_bodies, wrong_logins, bad_credentials)
