"""Schemathesis against a running server, as every kind of actor; and the agents' contract by a node's certificate. The cases
are counted in the server's log, not by the tool."""

import argparse
import contextlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import credentials
import node_wire

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from platform_under_test import ROOT, Folder, PostgresDatabase, Server, actors  # noqa: E402

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# A stream that never ends cannot be waited for; the server's own tests read it live.
LEFT_OUT = ["event_stream"]
ACTORS = ["operator", "tenant_admin", "project_viewer", "service_account"]
# These actors test a sample of the operations, another one with each seed: testing all of them takes a minute. The number is the
# sample's size; the registry's token may use none, so a few suffice.
SAMPLED_ACTORS = {"adapter": 25, "session": 25, "pull_token": 15, "tenant_admin on PostgreSQL": 40,
                  "operator on PostgreSQL": 25}
# The operations of their purpose are in every sample.
ALWAYS_SEEN = {"adapter": ("adapter_", "instance_get", "instance_list", "member_list", "whoami"),
               "session": ("session_create", "token_", "whoami"), "pull_token": ("whoami",),
               # Texts with odd characters reach the database by these in particular.
               "tenant_admin on PostgreSQL": ("secret_create", "app_create", "allocation_create", "webhook_create", "whoami"),
               # Nodes and the audit are the operators' alone.
               "operator on PostgreSQL": ("tenant_create", "node_enrol", "node_update", "audit_", "whoami")}
# A browser that logs out at the beginning would be a stranger for the rest.
ENDS_SESSION = ["session_delete"]
# Only the rates are lifted, because Schemathesis asks faster than any actor may, and a 429 would hide the answer. How much may
# be under way at once, and every other bound, is the default.
RATES = {"limits-actor-per-second": "1000000", "limits-tenant-per-second": "1000000", "limits-address-per-second": "1000000"}


def answered(log):
    """Returns the server's own counts of responses: all, with a 5xx, with success, and the operations."""
    lines = [json.loads(line) for line in log.split("\n") if '"entry":"api"' in line]
    failed = [line for line in lines if line["status"] >= 500]
    succeeded = sum(line["status"] < 300 for line in lines)
    return len(lines), failed, succeeded, {line["endpoint"] for line in lines}


def sample(actor, seed):
    """Returns the operations that this actor tests with this seed; none means all."""
    if actor not in SAMPLED_ACTORS:
        return []
    document = json.loads((ROOT / "openapi" / "platform.json").read_text())
    names = sorted(operation["operationId"] for path in document["paths"].values() for operation in path.values())
    always = [name for name in names if name.startswith(ALWAYS_SEEN[actor])]
    others = [name for name in names if name not in [*LEFT_OUT, *ENDS_SESSION, *always]]
    return always + random.Random(f"{actor} {seed}").sample(others, SAMPLED_ACTORS[actor])


def headers_of(name, server, tokens, tenant, project, folder):
    """Credentials that the actor sends with each request."""
    if name == "adapter":
        return {"Authorization": f"Bearer {credentials.adapter(server, tenant, project, tokens, folder)}"}
    if name == "pull_token":
        return {"Authorization": f"Bearer {credentials.pull_token(server, tenant, tokens)}"}
    if name == "session":
        return credentials.session(server, tenant, tokens)
    return {"Authorization": f"Bearer {tokens[name.split()[0]]}"}


def database_of(name):
    return PostgresDatabase() if name.endswith("PostgreSQL") else contextlib.nullcontext("")


def fuzz(name, examples, seed):
    """One actor on a fresh server: a fuzzer that may revoke tokens will revoke its own, and must not spoil the next."""
    began = time.monotonic()
    with Folder() as folder, database_of(name) as database:
        server = Server(folder, database=database, limits=RATES, settings={
            "log-level": "debug,hyper=off,sqlx=off,reqwest=off",
            # Names that the fuzzer makes up are not looked up in the world.
            "registry-external": "false",
        })
        server.start()
        try:
            tenant, project, tokens = actors(server)
            headers = headers_of(name, server, tokens, tenant, project, folder)
            setup, _, before, _ = answered(server.log())
            # One worker: with several, Python 3.11.2's own parser now and then fails on what Hypothesis has it read (gh-106905).
            command = [
                str(Path(sys.executable).parent / "schemathesis"), "run", f"http://127.0.0.1:{server.port}/openapi.json",
                "--url", f"http://127.0.0.1:{server.port}", "--checks", CHECKS, "--max-examples", str(examples),
                "--seed", str(seed), "--workers", "1", "--phases", "examples,coverage,fuzzing",
                "--request-timeout", "10", "--generation-database", "none", "--no-color", "--max-failures", "5",
                "--suppress-health-check", "all",
            ]
            for header, value in headers.items():
                command += ["--header", f"{header}: {value}"]
            for operation in sample(name, seed):
                command += ["--include-operation-id", operation]
            for operation in LEFT_OUT if name not in SAMPLED_ACTORS else ():
                command += ["--exclude-operation-id", operation]
            ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=900)
            alive = server.process.poll() is None
        finally:
            server.stop()
        cases, failed, succeeded, operations = answered(server.log())
        carried_out = succeeded - before
        ok = ran.returncode == 0 and alive and not failed and not (name == "pull_token" and carried_out)
        print(f"  {name:16} {cases - setup:6} cases  {carried_out:5} of them carried out  {len(operations):3} operations  "
              f"{time.monotonic() - began:4.0f} s  {'ok' if ok else 'FAILED'}", flush=True)
        if not ok:
            told = ran.stdout
            for heading in ("= ERRORS", "= FAILURES"):
                at = told.find(heading)
                if at >= 0:
                    print(told[at:at + 4000])
            print(told[-1500:], ran.stderr[-2000:], *failed[:5], sep="\n")
        return ok, cases - setup


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="so many at least, over all actors")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"the API against its document, at least {options.cases} cases (seed {options.seed}):", flush=True)
    total, passed, seed = 0, 0, options.seed
    while total < options.cases:
        for name in [*ACTORS, *SAMPLED_ACTORS]:
            ok, cases = fuzz(name, max(2, min(20, options.cases // 1000)), seed)
            total += cases
            passed += ok
            if not ok or cases == 0:
                print(f"{total} cases\nfuzz: {passed} passed, 1 failed")
                return 1
        ok, cases = node_wire.fuzz(seed)
        total += cases
        passed += ok
        if not ok:
            print(f"{total} cases\nfuzz: {passed} passed, 1 failed")
            return 1
        seed += 1
    print(f"{total} cases, not one 5xx, not one answer outside the document\nfuzz: {passed} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
