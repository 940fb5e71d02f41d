"""Our server as it ships, with tenants and users created through the public API."""

import http.client
import itertools
import json
import os
import re
import secrets
import socket
import time

from .processes import Broken, Process, pinned, wait_for

# One bench client sends as many requests as a thousand people: the rate limits are lifted, and every report mentions it. All else is
# the default.
LIFTED = {"limits.actor_per_second": "1000000", "limits.tenant_per_second": "1000000", "limits.tenant_in_flight": "1000000",
          "events.streams_per_actor": "100000", "events.streams_per_tenant": "100000"}
PASSWORD = secrets.token_urlsafe(24)
KEYS = itertools.count()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """A running server with a data folder of its own."""

    pushed = 0  # images

    def __init__(self, binary, folder, database_url="", core=None, limits=LIFTED):
        self.binary, self.folder, self.database_url, self.core = binary, folder, database_url, core
        self.limits = limits
        self.process = None
        folder.mkdir(mode=0o700, exist_ok=True)

    def command(self, listen):
        flags = {"data.dir": str(self.folder), "http.listen": listen, "nodes.listen": "127.0.0.1:0", **self.limits}
        words = [(f"--{key.replace('.', '-').replace('_', '-')}", value) for key, value in flags.items()]
        command = [self.binary, "server", "--stop-with-stdin", *itertools.chain(*words)]
        return pinned(self.core, command) if self.core else command

    def spawn(self, listen):
        """Starts it and waits for nothing. Logs go to a file, as they would under any supervisor."""
        env = {"PATH": os.environ["PATH"], "MUSTER_DATABASE_URL": self.database_url}
        self.log_offset = (self.folder / "log").stat().st_size if (self.folder / "log").exists() else 0
        self.process = Process("muster", self.command(listen), env, self.folder / "log")
        self.pid = self.process.pid

    def start(self):
        self.spawn("127.0.0.1:0")  # the kernel chooses the port, and the log has it
        self.address, self.nodes_address = wait_for("muster's start", self.process, self._addresses_in_log)
        self.operator = (self.folder / "operator.token").read_text().strip()
        return self

    def _addresses_in_log(self):
        with (self.folder / "log").open("rb") as log:
            log.seek(self.log_offset)
            found = re.search(r'"address":"([0-9.:]+)","nodes_address":"([0-9.:]+)"', log.read().decode())
        return found.groups() if found else None

    def stop(self):
        if self.process:
            self.process.stop()


def call(address, method, path, body=None, token="", headers=None):
    """One request; anything but success is the end of the run."""
    host, port = address.rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=30)
    sent = {"Content-Type": "application/json", "Idempotency-Key": f"setup-{os.getpid()}-{next(KEYS)}", **(headers or {})}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, sent)
        answer = connection.getresponse()
        text = answer.read().decode()
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise Broken(f"{method} {path} was answered with {answer.status}: {text[:500]}")
    return json.loads(text), answer.headers


def personal_token(address, tenant, email):
    """Logs in as a person and issues a token: only the person can issue one."""
    login = {"method": "password", "tenant": tenant, "email": email, "password": PASSWORD}
    session, headers = call(address, "POST", "/v1/sessions", login)
    cookie = headers["Set-Cookie"].split(";")[0]
    issued, _ = call(address, "POST", "/v1/tokens", {"name": "bench"},
                     headers={"Cookie": cookie, "X-CSRF-Token": session["csrf_token"]})
    return issued["secret"]


def make_tenant(server, slug, projects):
    """A tenant, its projects and its admin; gives the admin's line of a targets' file."""
    post = lambda path, body: call(server.address, "POST", path, body, server.operator)[0]
    post("/v1/tenants", {"slug": slug})
    ids = [post(f"/v1/tenants/{slug}/projects", {"name": f"p{number}"})["id"] for number in range(projects)]
    email = f"admin@{slug}.example"
    post("/v1/users", {"email": email, "tenant": slug, "password": PASSWORD})
    post("/v1/role-bindings", {"user": email, "role": "tenant_admin", "tenant": slug})
    return " ".join([personal_token(server.address, slug, email), slug, *ids])


def make_pusher(server):
    """A service account that may pull, push and move tags, as a pipeline has one; its token lies in a file of the server's."""
    admin, slug, project = make_tenant(server, "images", 1).split(" ")
    post = lambda path, body: call(server.address, "POST", path, body, admin)[0]
    permissions = ["repository.pull", "repository.push", "repository.retag"]
    account = post(f"/v1/projects/{project}/service-accounts", {"name": "pipeline", "permissions": permissions})
    issued = post("/v1/tokens", {"service_account": account["id"], "name": "bench"})
    server.token_file = write_targets(server.folder / "pusher.token", [issued["secret"]])
    server.repository = f"{slug}.p0/app"
    server.entries_before = audit_entries(server, slug)


def audit_entries(server, tenant="images"):
    """The number of the last sealed entry of a tenant's audit, once it stands still."""
    head = lambda: call(server.address, "GET", f"/v1/audit/head?tenant={tenant}", token=server.operator)[0]["sequence"]
    before = None
    while (now := head()) != before:
        before = now
        time.sleep(0.5)
    return now


def write_targets(file, lines):
    with open(file, "w", opener=lambda path, flags: os.open(path, flags, 0o600)) as out:
        out.write("\n".join(lines) + "\n")
    return file


def make_targets(server, tenants, projects):
    """Writes a targets file of this many tenants with this many projects each."""
    prefix = f"t{tenants}x{projects}"
    lines = [make_tenant(server, f"{prefix}-{number}", projects) for number in range(tenants)]
    return write_targets(server.folder / f"{prefix}.targets", lines)


def answers_whoami(port, token):
    """Whether the server at this port knows the token's owner; quick to fail, because it is asked a thousand times."""
    lines = ("GET /v1/whoami HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Authorization: Bearer {token}", "Connection: close")
    request = "\r\n".join(lines) + "\r\n\r\n"
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as stream:
            stream.sendall(request.encode())
            return stream.recv(64).startswith(b"HTTP/1.1 200") or None
    except OSError:
        return None


def seconds_to_answer(server):
    """From the start of the program to its first authenticated answer."""
    port = free_port()
    token = (server.folder / "operator.token").read_text().strip()
    started = time.perf_counter()
    server.spawn(f"127.0.0.1:{port}")
    wait_for("the first answer", server.process, lambda: answers_whoami(port, token), pause=0.001)
    return time.perf_counter() - started
