#!/usr/bin/env python3
"""A tenant that floods the server with one token: requests, commands, large pages, event streams and pushes, all at once.

  flood.py PORT PROJECT REPOSITORY   with the token on standard input; ends when standard input does, and writes its
                                     responses as JSON

`tests/attacks` uses it too. It needs nothing but Python, so that it can run in its own control group.
"""

import contextlib
import hashlib
import http.client
import json
import os
import socket
import sys
import threading
import uuid

# A caller from another address than the tenant beside it.
SOURCE = "127.0.0.66"
STREAMS = 300


class Flood:
    """Asks until the `with` ends; `answers` counts the statuses."""

    def __init__(self, port, token, project, repository):
        self.port, self.token, self.project, self.repository = port, token, project, repository
        self.ended, self.lock, self.answers, self.connections = threading.Event(), threading.Lock(), {}, []
        work = [self.read] * 4 + [self.command] * 2 + [self.page] * 2 + [self.push] * 2 + [self.listen]
        self.threads = [threading.Thread(target=self.again, args=(act,), daemon=True) for act in work]

    def again(self, act):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20, source_address=(SOURCE, 0))
        while not self.ended.is_set():
            try:
                status = act(connection)
            except (OSError, http.client.HTTPException):
                connection.close()
                status = 0
            with self.lock:
                self.answers[status] = self.answers.get(status, 0) + 1
        connection.close()

    def ask(self, connection, method, path, body=None, kind="application/json"):
        sent = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": uuid.uuid4().hex}
        connection.request(method, path, body, {**sent, "Content-Type": kind} if body else sent)
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def read(self, connection):
        return self.ask(connection, "GET", f"/v1/projects/{self.project}")

    def command(self, connection):
        body = json.dumps({"name": f"a{uuid.uuid4().hex[:12]}", "permissions": ["project.get"]})
        return self.ask(connection, "POST", f"/v1/projects/{self.project}/service-accounts", body)

    def page(self, connection):
        return self.ask(connection, "GET", f"/v1/projects/{self.project}/service-accounts?page_size=200")

    def push(self, connection):
        data = os.urandom(1 << 20)
        digest = hashlib.sha256(data).hexdigest()
        return self.ask(connection, "POST", f"/v2/{self.repository}/blobs/uploads/?digest=sha256:{digest}", data,
                        "application/octet-stream")

    def listen(self, _connection):
        """Opens event streams and keeps them; those beyond the limit are refused."""
        if len(self.connections) < STREAMS:
            with contextlib.suppress(OSError):
                stream = socket.create_connection(("127.0.0.1", self.port), timeout=20, source_address=(SOURCE, 0))
                stream.sendall(f"GET /v1/events/stream?project={self.project} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
                               f"Authorization: Bearer {self.token}\r\n\r\n".encode())
                self.connections.append(stream)
        self.ended.wait(0.05)
        return "stream"

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join()
        for connection in self.connections:
            connection.close()


def main():
    port, project, repository = sys.argv[1:]
    token = sys.stdin.readline().strip()
    with Flood(int(port), token, project, repository) as flood:
        sys.stdin.read()
    print(json.dumps({str(status): count for status, count in flood.answers.items()}))


if __name__ == "__main__":
    main()
