"""An adapter as a separate process, in any language: it gets the platform's address and a file with a token."""

import subprocess
import uuid
from pathlib import Path

from platform_under_test import die_with_parent


def publisher_token(server, project, token):
    """A token of a fresh account in the publisher's own project, which may mint tokens and nothing else."""
    account = server.call(
        "POST", f"/v1/projects/{project}/service-accounts",
        {"name": f"adapter-{uuid.uuid4().hex[:6]}", "permissions": ["operator_token.mint", "entitlement.list"]}, token=token)
    return server.call("POST", "/v1/tokens", {"name": "adapter", "service_account": account["id"]}, token=token)["secret"]


def keep_token(file, secret):
    """Writes a token to a private file; returns the file."""
    file = Path(file)
    file.touch(0o600)
    file.chmod(0o600)
    file.write_text(secret)
    return file


def start_adapter(command, server, token, name, log, environment=None):
    """Starts it under this name. Its output is appended to the log; its environment is only `environment`."""
    known = {"MUSTER_SERVER": server, "MUSTER_TOKEN_FILE": str(token), "MUSTER_ADAPTER_NAME": name}
    with open(log, "ab") as out:
        return subprocess.Popen(command, env={"PATH": "/usr/bin:/bin", **(environment or {}), **known}, stdin=subprocess.DEVNULL,
                                stdout=out, stderr=out, preexec_fn=die_with_parent)


def stop_adapter(process):
    """Ends it at once, if it still runs."""
    if process and process.poll() is None:
        process.kill()
        process.wait()
