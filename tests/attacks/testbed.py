"""A server with its default limits, an attacker's tenant, and a bystander's tenant that must not notice."""

import http.client
import json
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.append(str(Path(__file__).resolve().parent.parent / "registry"))
from wire import IMAGE, Wire, sha256  # noqa: E402

from platform_under_test import BINARY, Server, actors, die_with_parent, free_port  # noqa: E402

# Attackers dial from an address of their own: shares of callers without a credential are counted by address.
ATTACKER, ATTACKERS = "127.0.0.66", [f"127.0.0.{number}" for number in range(66, 71)]
SERVER_MOST_MB, AGENT_MOST_MB = 400, 100
# A debug build on two busy cores answers in milliseconds when alone; this is where "answered" ends.
PATIENCE = 10
# A user may log in a few times a minute.
LOGIN_SECONDS = 15


class AttackSucceeded(AssertionError):
    """The attack succeeded. Any other failure is a fault of the test or of the platform."""


class NotRun(Exception):
    """This machine cannot run the attack."""


def peak_mb(pid):
    """The most memory that the process ever had."""
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))


class Bystanders:
    """The operator, another tenant with its pulls and logins, and a health probe, asking all the while. Every answer must be the right one."""

    def __init__(self, testbed):
        self.testbed, self.faults, self.rounds, self.slowest = testbed, [], 0, 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.ask_until_ended, daemon=True)

    def requests(self):
        other = self.testbed.bystander
        project, token = other["project"]["id"], other["token"]
        account = {"name": f"a{uuid.uuid4().hex[:12]}", "permissions": ["project.get"]}
        return (
            ("probe", 200, "GET", "/healthz", None, ""),
            ("operator", 200, "GET", "/v1/whoami", None, None),
            ("tenant", 200, "GET", f"/v1/projects/{project}", None, token),
            ("tenant's command", 201, "POST", f"/v1/projects/{project}/service-accounts", account, token),
            *(("tenant's pull", 200, "GET", path, None, token) for path in self.testbed.pulls),
            *self.login(),
        )

    def login(self):
        if time.monotonic() < self.testbed.next_login:
            return ()
        self.testbed.next_login = time.monotonic() + LOGIN_SECONDS
        email, password = self.testbed.user
        asked = {"method": "password", "tenant": self.testbed.bystander["tenant"]["id"], "email": email, "password": password}
        return (("login", 201, "POST", "/v1/sessions", asked, ""),)

    def ask(self):
        for caller, expected, method, path, body, token in self.requests():
            headers = {"Idempotency-Key": uuid.uuid4().hex} if method == "POST" else {"Accept": IMAGE}
            began = time.monotonic()
            try:
                status, _, content = self.testbed.server.request(method, path, body, token, headers, timeout=PATIENCE)
            except (OSError, http.client.HTTPException) as error:
                status, content = f"{type(error).__name__}: {error}", b""
            self.slowest = max(self.slowest, time.monotonic() - began)
            if status != expected:
                self.faults.append(f"{caller}, {method} {path}: {status} {content[:200]!r}")
            elif caller == "tenant's pull" and sha256(content) != path.rsplit("/", 1)[1]:
                self.faults.append(f"{caller}, {path}: other content")
        self.rounds += 1

    def ask_until_ended(self):
        while not self.ended.is_set():
            self.ask()
            self.ended.wait(0.2)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, kind, *_):
        self.ended.set()
        self.thread.join()
        if kind is None:
            self.ask()  # at least once when the attack stands
            assert not self.faults, f"{len(self.faults)} wrong answers in {self.rounds} rounds, such as {self.faults[:5]}"


class Agent:
    """One simulated node in a process of its own."""

    def __init__(self, testbed, name="node", gpus=2):
        self.folder, self.name = testbed.folder, name
        token = self.folder / f"operator-{name}.token"
        token.touch(0o600)
        token.write_text(testbed.server.operator_token())
        self.log = self.folder / f"agent-{name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                [BINARY, "agent", "simulate", "--nodes", "1", "--gpus", str(gpus), "--cpus", "64", "--prefix", f"{name}-",
                 "--server", f"https://127.0.0.1:{testbed.nodes_port}", "--api", f"http://127.0.0.1:{testbed.server.port}",
                 "--token-file", str(token), "--approve", "--data-dir", str(self.folder / f"agent-{name}")],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, preexec_fn=die_with_parent)
        for line in self.process.stdout:
            if line.startswith("ready"):
                return
        raise RuntimeError(f"the agent ended: {self.log.read_text()[-2000:]}")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class Testbed:
    """The server and its tenants, for as long as the `with` lasts."""

    def __init__(self, folder, settings=None):
        self.folder, self.agents, self.notes = Path(folder), [], []
        self.agent_most_mb, self.next_login = AGENT_MOST_MB, 0.0
        self.nodes_port = free_port()
        data = self.folder / "data"
        data.mkdir()
        self.server = Server(data, settings={"nodes-listen": f"127.0.0.1:{self.nodes_port}", **(settings or {})}, limits={})

    def __enter__(self):
        self.server.start()
        try:
            self.attacker, self.bystander = self.tenant(), self.tenant()
            self.user = self.person(self.bystander)
            self.pulls = self.push()
        except BaseException:
            self.server.kill()
            raise
        return self

    def __exit__(self, kind, *_):
        try:
            for agent in self.agents:
                if kind is None:
                    assert agent.process.poll() is None, f"the agent ended: {agent.log.read_text()[-2000:]}"
                    self.note(f"agent {peak_mb(agent.process.pid):.0f} MB")
                    assert peak_mb(agent.process.pid) < self.agent_most_mb, f"the agent had {peak_mb(agent.process.pid):.0f} MB"
            if kind is None:
                assert self.server.process.poll() is None, f"the server ended: {self.server.log()[-2000:]}"
                peak = peak_mb(self.server.process.pid)
                self.note(f"server {peak:.0f} MB")
                assert peak < SERVER_MOST_MB, f"the server had {peak:.0f} MB"
        finally:
            for agent in self.agents:
                agent.stop()
            if self.server.process.poll() is None:
                self.server.kill()

    def push(self):
        """Pushes an image of the bystander's; returns the paths to pull it from."""
        layer, name = b"a layer of the bystander's", f"{self.bystander['tenant']['slug']}.work/app"
        digest, _ = Wire(self.server.port, self.bystander["token"]).image(name, "v1", [layer])
        return f"/v2/{name}/manifests/{digest}", f"/v2/{name}/blobs/{sha256(layer)}"

    def tenant(self):
        tenant, project, tokens = actors(self.server)
        return {"tenant": tenant, "project": project, "tokens": tokens, "token": tokens["tenant_admin"]}

    def agent(self, name="node"):
        self.agents.append(Agent(self, name))
        return self.agents[-1]

    def note(self, text):
        """A number for the line that is printed at the end."""
        self.notes.append(text)

    def bystanders(self):
        return Bystanders(self)

    def login(self, tenant, email, password, source=None):
        """Logs in with a password; the answer's status and body."""
        asked = {"method": "password", "tenant": tenant, "email": email, "password": password}
        status, _, text = self.server.request(
            "POST", "/v1/sessions", asked, token="", headers={"Idempotency-Key": uuid.uuid4().hex}, source=source)
        return status, json.loads(text)

    def person(self, of):
        """Creates a person of this tenant without a session: address and password."""
        email, password = f"p{uuid.uuid4().hex[:8]}@example.example", uuid.uuid4().hex
        self.server.call("POST", "/v1/users", {"email": email, "tenant": of["tenant"]["id"], "password": password})
        return email, password

    def command(self, of, path, body, token=None):
        """A command about this tenant's project that must succeed."""
        return self.server.call("POST", f"/v1/projects/{of['project']['id']}/{path}", body, token=token or of["token"])

    def node_command(self, node, verb, body):
        """An operator's command about a node, whatever its version is."""
        headers = {"Idempotency-Key": uuid.uuid4().hex, "If-Match": "*"}
        status, _, text = self.server.request("POST", f"/v1/nodes/{node}/{verb}", body, headers=headers)
        assert status < 300, (status, text)

    def operation_end(self, of, operation, seconds):
        """The operation once it has ended, or as it stands after this time."""
        until = time.monotonic() + seconds
        while True:
            found = self.server.call("GET", f"/v1/operations/{operation['id']}?wait_seconds=5", token=of["token"])
            if found["state"] in ("succeeded", "partial", "failed", "cancelled", "superseded", "blocked") or time.monotonic() > until:
                return found
