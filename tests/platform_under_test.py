"""A test's own muster server: started, queried, stopped, and removed with all its files.

The end-to-end tests are written in another language than the platform on purpose: a test should share no code
with its subject, only the wire.
"""

import ctypes
import http.client
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The debug build by default: `make test` has built it before.
BINARY = os.environ.get("MUSTER_BINARY", str(ROOT / "target" / "debug" / "muster"))


# A test that gets a signal cleans up: `with` and `finally` run for an exit, not for a signal.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

LIBC = ctypes.CDLL(None, use_errno=True)


def die_with_parent():
    """In the child: when this test is killed outright, the kernel kills the child too."""
    LIBC.prctl(1, signal.SIGKILL)


def seed_of_samples():
    """The seed of what `make test` samples, by day; 1 where nothing is sampled. Suites that sample print it."""
    seed = os.environ.get("MUSTER_SEED", "all")
    return 1 if seed == "all" else int(seed)


def free_port():
    """A port that a server can be given again after it was killed. It lies below the range that the kernel assigns to others: a
    port of that range may be taken by any other test while the server is away."""
    while True:
        port = random.randrange(20000, 32000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


# A suite's one client asks as much as a thousand people, so the fair shares are lifted. A test of the shares themselves
# starts its server with `limits={}`, which leaves every default.
LIFTED_LIMITS = {
    "limits-actor-per-second": "1000000",
    "limits-tenant-per-second": "1000000",
    "limits-tenant-in-flight": "10000",
    "limits-address-per-second": "1000000",
    "limits-address-in-flight": "10000",
    "events-streams-per-actor": "10000",
    "events-streams-per-tenant": "10000",
}


class Refused(Exception):
    """An answer that is not a success."""

    def __init__(self, status, problem):
        super().__init__(f"{status} {problem}")
        self.status = status
        self.problem = problem


class PostgresDatabase:
    """A PostgreSQL database of its own, under `tools/with-postgres`; its URL."""

    def __enter__(self):
        self.server = os.environ["MUSTER_TEST_POSTGRES"]
        self.name = f"test_{uuid.uuid4().hex}"
        self.psql(f"CREATE DATABASE {self.name}")
        return self.server.rsplit("/", 1)[0] + f"/{self.name}"

    def __exit__(self, *_):
        self.psql(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")

    def psql(self, statement):
        subprocess.run(["psql", self.server, "--quiet", "--no-psqlrc", "--command", statement], check=True)


class Server:
    """One server process."""

    def __init__(self, data, database="", settings=None, limits=LIFTED_LIMITS):
        self.data, self.database, self.settings, self.limits = Path(data), database, settings or {}, limits
        self.port = free_port()
        self.process = None

    def start(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        environment["MUSTER_DATABASE_URL"] = self.database
        flags = {
            "http-listen": f"127.0.0.1:{self.port}",
            "nodes-listen": "127.0.0.1:0",
            "data-dir": str(self.data),
            "log-level": "warn",
            **self.limits,
            **self.settings,
        }
        command = [BINARY, "server"] + [part for name, value in flags.items() for part in (f"--{name}", value)]
        log = open(self.data / f"server-{self.port}.log", "ab")
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=die_with_parent)
        log.close()
        self.wait_until_ready()

    def wait_until_ready(self):
        until = time.monotonic() + 60
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended: {self.log()[-2000:]}")
            try:
                if self.request("GET", "/readyz", token="")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.05)
        raise RuntimeError(f"the server did not become ready: {self.log()[-2000:]}")

    def log(self):
        return (self.data / f"server-{self.port}.log").read_text(errors="replace")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()
                raise RuntimeError("the server did not stop when asked")

    def operator_token(self):
        return (self.data / "operator.token").read_text().strip()

    def request(self, method, path, body=None, token=None, headers=None, timeout=20, source=None):
        """One request on a connection of its own, from this address of the loopback: (status, headers, body)."""
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.port, timeout=timeout, source_address=(source, 0) if source else None)
        try:
            sent = dict(headers or {})
            token = self.operator_token() if token is None else token
            if token:
                sent["Authorization"] = f"Bearer {token}"
            data = None
            if body is not None:
                data = json.dumps(body)
                sent["Content-Type"] = "application/json"
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def call(self, method, path, body=None, token=None, key=None):
        """A request that must succeed; its body as JSON."""
        headers = {"If-Match": "*"} if method in ("PATCH", "DELETE") else {}
        if method == "POST":
            headers["Idempotency-Key"] = key or uuid.uuid4().hex
        status, _, text = self.request(method, path, body, token, headers)
        answer = json.loads(text) if text else None
        if status >= 300:
            raise Refused(status, answer)
        return answer


def unique_name(prefix):
    """A new name that strict tools accept. `tempfile` also draws underscores, which image references refuse at the
    beginning and the end of a word."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def temporary_folder(prefix):
    """Create an empty folder for the current user alone."""
    path = Path(tempfile.gettempdir()) / unique_name(prefix)
    path.mkdir(mode=0o700)
    return path


class Folder:
    """A temporary folder, removed at the end of the `with`."""

    def __init__(self, prefix="muster-e2e"):
        self.prefix = prefix

    def __enter__(self):
        self.path = temporary_folder(self.prefix)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def actors(server):
    """A tenant, a project, and one token for each kind of actor."""
    tag = uuid.uuid4().hex[:8]
    tenant = server.call("POST", "/v1/tenants", {"slug": f"t{tag}"})
    project = server.call("POST", f"/v1/tenants/{tenant['id']}/projects", {"name": "work"})
    tokens = {"operator": server.operator_token()}
    for name, role in (("tenant_admin", {"tenant": tenant["id"]}), ("project_viewer", {"project": project["id"]})):
        email, password = f"{name}@{tag}.example", uuid.uuid4().hex
        server.call("POST", "/v1/users", {"email": email, "tenant": tenant["id"], "password": password})
        giver = tokens.get("tenant_admin")
        server.call("POST", "/v1/role-bindings", {"user": email, "role": name, **role}, token=giver)
        login = {"method": "password", "tenant": tenant["id"], "email": email, "password": password}
        status, headers, text = server.request(
            "POST", "/v1/sessions", login, token="", headers={"Idempotency-Key": uuid.uuid4().hex})
        assert status == 201, text
        cookie = headers["set-cookie"].split(";")[0]
        status, _, text = server.request(
            "POST", "/v1/tokens", {"name": "test"}, token="",
            headers={"Idempotency-Key": uuid.uuid4().hex, "Cookie": cookie, "X-CSRF-Token": json.loads(text)["csrf_token"]})
        assert status == 201, text
        tokens[name] = json.loads(text)["secret"]
    account = server.call(
        "POST", f"/v1/projects/{project['id']}/service-accounts",
        {"name": "robot", "permissions": ["project.get", "project.list", "event.list", "webhook.create", "webhook.list"]},
        token=tokens["tenant_admin"])
    issued = server.call(
        "POST", "/v1/tokens", {"name": "test", "service_account": account["id"]}, token=tokens["tenant_admin"])
    tokens["service_account"] = issued["secret"]
    return tenant, project, tokens
