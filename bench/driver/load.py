"""The load generator of bench/load, with the requests that we make of each server."""

import itertools
import json
import subprocess

from .processes import ROOT, TARGET, Broken, output_of, pinned

BINARY = TARGET / "release/bench-load"
CLIENTS = 16
PAGE = 50
RUNS = itertools.count(1)

# method, path, body; as in the generator's help
REQUESTS = {
    "service_account_create":
        ("POST", "/v1/projects/{project}/service-accounts", '{"name":"{name}","permissions":[]}'),
    "project_create": ("POST", "/v1/tenants/{tenant}/projects", '{"name":"{name}"}'),
    "project_list": ("GET", f"/v1/projects?page_size={PAGE}", ""),
    "dstack: projects/create": ("POST", "/api/projects/create", '{"project_name":"{name}"}'),
    "dstack: secrets/create_or_update":
        ("POST", "/api/project/{project}/secrets/create_or_update", '{"name":"{name}","value":"x"}'),
    "restate: operation/run": ("POST", "/operation/run", "1"),
    "dstack: projects/list": ("POST", "/api/projects/list", f'{{"limit":{PAGE}}}'),
}

# With a key it would store the response, which this comparison does not need.
WITHOUT_KEY = ("restate: operation/run",)


def build():
    # From its own folder: cargo reads its configuration from where it is called.
    output_of(["cargo", "build", "--release", "--locked", "--quiet"], timeout=600, cwd=ROOT / "bench/load")


def fresh_run():
    """A name that no other run has."""
    return f"r{next(RUNS)}"


def ask(server, targets, request, seconds=None, requests=None, clients=CLIENTS, watch_seal=False):
    """Loads a server and returns the generator's results. One unsuccessful response breaks the run."""
    method, path, body = REQUESTS[request]
    bound = ["--seconds", seconds] if seconds else ["--requests", requests]
    command = [BINARY, "--address", server.address, "--targets", targets, "--run", fresh_run(), "--method", method,
               "--path", path, "--body", body, "--clients", clients, *bound, *(["--watch-seal"] if watch_seal else []),
               *(["--without-key"] if request in WITHOUT_KEY else [])]
    seen = json.loads(output_of(command, timeout=180))
    server.process.check()
    if seen["non2xx"]:
        raise Broken(f"{request}: {seen['non2xx']} answers were no success, by status: {seen['failures']}")
    sealed = seen["sealed"]
    if sealed and not sealed["exactly"]:
        raise Broken(f"{request}: {sealed['acknowledged']} commands were acknowledged, but the audit has "
                     f"{sealed['entries']} new entries")
    return seen


def operations(server, work, clients, wait=False, seconds=None):
    """Submits every operation of the file `work`, once; optionally waits for their ends too. Returns the generator's
    results, and the acknowledged ids. One unsuccessful response, or one operation, breaks the run."""
    told = work.with_suffix(".told")
    bound = ["--seconds", seconds] if seconds else []
    command = [BINARY, "operations", "--address", server.address, "--work", work, "--run", fresh_run(), "--clients", clients,
               "--told", told, *bound, *(["--wait"] if wait else [])]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=900)
    server.process.check()
    if done.returncode != 0:
        raise Broken(f"operations: the generator failed: {done.stderr[-2000:]}")
    seen = json.loads(done.stdout)
    if seen["non2xx"]:
        raise Broken(f"operations: {seen['non2xx']} were no success, by status: {seen['failures']}; {done.stderr[-2000:]}")
    return {**seen, "acknowledged": told.read_text().split()}


def registry(side, verb, run=None, seconds=None, each=None, clients=CLIENTS, megabytes=None, compare=False):
    """Pushes to a registry or pulls from it. One answer that is not the right one breaks the run."""
    options = {"seconds": seconds, "each": each, "megabytes": megabytes, "token-file": side.token_file}
    words = [word for name, value in options.items() if value is not None for word in (f"--{name}", value)]
    command = [BINARY, "registry", verb, "--address", side.address, "--repository", side.repository, "--run",
               run or fresh_run(), "--clients", clients, *words, *(["--compare"] if compare else [])]
    done = subprocess.run(list(map(str, pinned("generator", command))), capture_output=True, text=True, timeout=300)
    side.process.check()
    if done.returncode != 0:
        raise Broken(f"registry {verb}: the generator failed: {done.stderr[-2000:]}")
    seen = json.loads(done.stdout)
    if seen["non2xx"] or not seen["ok"]:
        raise Broken(f"registry {verb}: {seen['non2xx']} answers were not the right one; {done.stderr[-2000:]}")
    side.pushed += seen["ok"] if verb in ("push", "put") else 0
    return seen
