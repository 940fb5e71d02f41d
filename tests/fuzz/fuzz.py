"""Schemathesis against a running server, as four actors. The cases are counted in the
server's log, not by the tool."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from platform_under_test import Folder, Server, actors  # noqa: E402

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
# A stream that never ends cannot be waited for; the server's own tests read it live.
LEFT_OUT = ["event_stream"]
ACTORS = ["operator", "tenant_admin", "project_viewer", "service_account"]


def answered(log):
    """What the server says it answered: how often, how often with a 5xx, how often with success, and to which operations."""
    lines = [json.loads(line) for line in log.splitlines() if '"operation_id"' in line]
    failed = [line for line in lines if line["status"] >= 500]
    succeeded = sum(line["status"] < 300 for line in lines)
    return len(lines), failed, succeeded, {line["operation_id"] for line in lines}


def fuzz(name, examples, seed):
    """One actor on a fresh server: a fuzzer that may revoke tokens will revoke its own, and must not spoil the next."""
    with Folder() as folder:
        server = Server(folder, settings={
            "log-level": "debug,hyper=off,sqlx=off,reqwest=off",
            # Names that the fuzzer makes up are not looked up in the world.
            "registry-external": "false",
        })
        server.start()
        try:
            _, _, tokens = actors(server)
            setup, _, _, _ = answered(server.log())
            # One worker: with several, Python 3.11.2's own parser now and then fails on what Hypothesis has it read (gh-106905).
            command = [
                str(Path(sys.executable).parent / "schemathesis"), "run", f"http://127.0.0.1:{server.port}/openapi.json",
                "--url", f"http://127.0.0.1:{server.port}", "--checks", CHECKS, "--max-examples", str(examples),
                "--seed", str(seed), "--workers", "1", "--phases", "examples,coverage,fuzzing",
                "--request-timeout", "10", "--header", f"Authorization: Bearer {tokens[name]}",
                "--generation-database", "none", "--no-color", "--max-failures", "5", "--suppress-health-check", "all",
            ]
            for operation in LEFT_OUT:
                command += ["--exclude-operation-id", operation]
            ran = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=900)
            alive = server.process.poll() is None
        finally:
            server.stop()
        cases, failed, succeeded, operations = answered(server.log())
        ok = ran.returncode == 0 and alive and not failed
        print(f"  {name:16} {cases - setup:6} cases  {succeeded:5} of them carried out  {len(operations):3} operations  "
              f"{'ok' if ok else 'FAILED'}", flush=True)
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
        for name in ACTORS:
            ok, cases = fuzz(name, max(2, min(20, options.cases // 1000)), seed)
            total += cases
            passed += ok
            if not ok or cases == 0:
                print(f"{total} cases\nfuzz: {passed} passed, 1 failed")
                return 1
        seed += 1
    print(f"{total} cases, not one 5xx, not one answer outside the document\nfuzz: {passed} passed, 0 failed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
