"""A platform for one trouble: a server, simulated nodes, acme with its two projects, and people's command lines."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fleet"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "apps"))
from adapter_process import keep_token, start_adapter, stop_adapter  # noqa: E402
from platform_under_test import BINARY  # noqa: E402
from shop import FAKE, MANIFEST, push  # noqa: E402
from world import Agents, Replica  # noqa: E402

PEOPLE = {"the operator": "operator", "ada": "ada"}


class World:
    """acme has a project apps, which publishes, and a project train, which launches. Ada runs both; cleo's tenant is another."""

    def __init__(self, folder, **settings):
        self.folder = Path(folder)
        self.replica = Replica(folder, "", {"nodes-heartbeat-seconds": "1", **settings})
        self.replica.start()
        self.agents = Agents(folder, "gpu", 2, 4)
        self.agents.start(self.replica)
        self.adapter, self.names = None, {}
        self.log_in("operator", self.replica.operator_token())
        self.operator("tenant", "create", "acme")
        self.person("ada", "acme")
        for project in ("apps", "train"):
            self.ada("project", "create", project, "--tenant", "acme")

    def person(self, name, tenant):
        """A tenant's admin, with a profile of the same name."""
        password = self.folder / f"{name}.password"
        password.write_text(f"the password of {name}")
        email = f"{name}@{tenant}.example"
        self.operator("user", "create", "--email", email, "--tenant", tenant, "--password-file", str(password))
        self.operator("role-binding", "create", "--user", email, "--role", "tenant_admin", "--tenant", tenant)
        self.said(name, "login", "--server", self.server, "--tenant", tenant, "--email", email, "--password-stdin", input=password.read_text())

    @property
    def server(self):
        return f"http://127.0.0.1:{self.replica.port}"

    def environment(self, profile):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        return {**kept, "HOME": str(self.folder), "XDG_CONFIG_HOME": str(self.folder / "config"), "MUSTER_PROFILE": profile,
                "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}

    def log_in(self, profile, token):
        (self.folder / "bin").mkdir(exist_ok=True)
        program = self.folder / "bin" / "muster"
        if not program.exists():
            program.symlink_to(Path(BINARY).resolve())
        file = self.folder / f"{profile}.token"
        file.write_text(token)
        file.chmod(0o600)
        self.said(profile, "login", "--server", self.server, "--token-file", str(file))

    def run(self, profile, *words, input=None):
        return subprocess.run([BINARY, *words], env=self.environment(profile), cwd=self.folder, capture_output=True, text=True,
                              timeout=60, **({"stdin": subprocess.DEVNULL} if input is None else {"input": input}))

    def said(self, profile, *words, input=None):
        ran = self.run(profile, *words, input=input)
        assert ran.returncode == 0, f"{words} ended with {ran.returncode}: {ran.stdout}{ran.stderr}{self.logs()}"
        return ran.stdout

    def operator(self, *words):
        return self.said("operator", *words)

    def ada(self, *words):
        return self.said("ada", *words)

    def json(self, profile, *words):
        return json.loads(self.said(profile, "-o", "json", *words))

    def logs(self):
        adapter = self.folder / "adapter.log"
        return f"\n{self.replica.log()[-1500:]}" + (f"\n{adapter.read_text()[-1500:]}" if adapter.exists() else "")

    def type(self, who, command):
        """Types a line of a runbook, as a shell would read it, with this trouble's own ids in it."""
        text = command.text
        for placeholder, value in self.names.items():
            text = text.replace(placeholder, value)
        left = re.findall(r"\b[a-z]{2,3}_…|…", text)
        assert not left, f"nothing stands for {left} in: {command.text}"
        profile = next((profile for words, profile in PEOPLE.items() if who.startswith(words)), None)
        assert profile, f"a block that is run begins with `# as the operator` or `# as ada`, not {who!r}"
        return subprocess.run(["bash", "-euo", "pipefail", "-c", text], env=self.environment(profile), cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)

    # Building blocks of the incidents.

    def image(self, repository, tag, project="apps"):
        """Some image in a project's registry; its digest."""
        token = self.json("ada", "token", "issue", f"push-{repository.replace('/', '-')}-{tag}")["secret"]
        return push(self.replica, token, f"acme.{project}/{repository}", tag)

    def sign(self, *artifacts):
        """A key that the publisher trusts, and its signature on each."""
        key = self.folder / "release.pem"
        if not key.exists():
            self.ada("key", "generate", str(key))
            self.ada("key", "create", "release", "--file", f"{key}.pub", "--project", "acme.apps")
        for artifact in artifacts:
            self.ada("artifact", "sign", artifact, "--key", str(key), "--project", "acme.apps")

    def manifest(self, digest, **changes):
        """The release of an app that means nothing, as a file; its name."""
        document = json.loads(MANIFEST.read_text().replace("${base}", digest))
        document.update({"app": "notebook", **changes})
        for component in document["components"]:
            for checks in component["witnesses"].values():
                for check in checks:
                    check["within"] = "3s"
        file = self.folder / "manifest.json"
        file.write_text(json.dumps(document))
        return str(file)

    def forward(self, noun, *what, to="active", project="acme.apps"):
        for state in ("staged", "canary", "active"):
            self.ada(noun, "promote", *what, "--to", state, "--reason", "it is good", "--project", project)
            if state == to:
                return

    def on_the_shelf(self, audience="tenant", **changes):
        """notebook 1.0.0, active; its manifest with these changes."""
        digest = self.image("fake/base", "1")
        self.sign("fake/base:1")
        self.forward("artifact", "fake/base:1")
        self.ada("app", "create", "notebook", "--display-name", "Notebook", "--audience", audience, "--project", "acme.apps")
        self.ada("app-version", "publish", "notebook", "--file", self.manifest(digest, **changes), "--project", "acme.apps")
        self.forward("app-version", "notebook", "1.0.0")

    def on_the_shelf_hidden(self):
        """Publishes notebook 1.0.0, staged, and visible only to its publisher."""
        digest = self.image("fake/base", "1")
        self.sign("fake/base:1")
        self.forward("artifact", "fake/base:1")
        self.ada("app", "create", "notebook", "--display-name", "Notebook", "--audience", "project", "--project", "acme.apps")
        manifest = self.manifest(digest, permissions=["runtime_secret.list"])
        self.ada("app-version", "publish", "notebook", "--file", manifest, "--project", "acme.apps")
        self.forward("app-version", "notebook", "1.0.0", to="staged")

    def entitle(self):
        asked = self.json("ada", "entitlement", "grant", "notebook", "--dry-run", "--project", "acme.train")["permissions"]
        consent = [word for permission in asked for word in ("--consent", permission)]
        self.ada("entitlement", "grant", "notebook", *consent, "--project", "acme.train")

    def adapter_token(self):
        file = self.folder / "adapter.token"
        if not file.exists():
            account = self.json("ada", "service-account", "create", "adapter", "--project", "acme.apps", "--permission",
                                "operator_token.mint", "--permission", "entitlement.list")["id"]
            keep_token(file, self.json("ada", "token", "issue", "adapter", "--service-account", account)["secret"])
        return file

    def start_adapter(self, **modes):
        self.stop_adapter()
        self.adapter = start_adapter([FAKE, "run", "--lease-seconds", "5", "--look-around-seconds", "1"], self.server,
                                     self.adapter_token(), "notebook-1", self.folder / "adapter.log", modes)

    def stop_adapter(self):
        stop_adapter(self.adapter)

    def close(self):
        self.stop_adapter()
        self.agents.kill()
        self.replica.stop()


def until(what, seconds=30):
    """Waits until it is true, and returns its value."""
    deadline = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        assert time.monotonic() < deadline, "it never came to this"
        time.sleep(0.1)
