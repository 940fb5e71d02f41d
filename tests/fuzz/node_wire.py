"""The agents' contract with a node's own certificate: Schemathesis checks the responses against openapi/node.json; then valid requests
with one value changed in each are sent in the node's real session, which no tool can guess."""

import copy
import json
import random
import subprocess
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path.append(str(TESTS / "attacks"))
sys.path.append(str(TESTS))
from python_node import Node  # noqa: E402
from testbed import Testbed  # noqa: E402

from platform_under_test import ROOT, Folder  # noqa: E402

DOCUMENT = ROOT / "openapi" / "node.json"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
MUTATED = 600
ODD = (None, True, 0, -1, 2**31, 2**63, 1.5, "", "x", "\u0000", "x" * 5000, "../..", "0" * 26, [], {}, [None], {"a": {}}, ["x"] * 500)


def places(value, path=()):
    """Where a document can be changed."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from places(inner, (*path, number))


def mutated(draw, body):
    """The same with one member changed, left out or added."""
    body = copy.deepcopy(body)
    path = draw.choice(list(places(body)))
    within = body
    for step in path[:-1]:
        within = within[step]
    how = draw.random()
    if how < 0.15:
        del within[path[-1]]
    elif how < 0.25 and isinstance(within, dict):
        within["unknown"] = draw.choice(ODD)
    else:
        within[path[-1]] = draw.choice(ODD)
    return body


def bodies(node):
    """One request of each kind that fits, in the node's present session."""
    some = {"allocation_id": "alc_01h455vb4pex5vsknk084sn02q", "incarnation": 1}
    cell = {**some, "cell_id": "cel_01h455vb4pex5vsknk084sn02q"}
    findings = {"present": False, "incarnation": 0, "devices": [], "residue": [], "amount": {"cpus": 0, "memory_mb": 0, "disk_mb": 0}}
    return {
        "hello": {"agent_version": "0.0.1", "inventory": node.inventory, "sandboxes": [some], "cells": [cell], "address": node.address},
        "poll": {"session": node.session, "wait_seconds": 0, "revision": 0, "observed": True, "tasks_only": False},
        "report": {"session": node.session, "reports": [{
            "task_id": "tsk_01h455vb4pex5vsknk084sn02q", "incarnation": 1, "generation": 1, "ending": "done", "findings": findings,
            "message": "x"}]},
        "inventory": {"session": node.session, "inventory": node.inventory},
        "observe": {"session": node.session, "cells": [
            {"cell": cell, "alive": True, "boot_id": "x", "message": "x",
             "services": [{"name": "a", "state": "running", "pid": 1, "ready": True, "restarts": 0}]}]},
        "secret": {"session": node.session, "cell_id": cell["cell_id"], "incarnation": 1, "what": {"file": "key"}},
        "renew": {"csr": "-----BEGIN CERTIFICATE REQUEST-----"},
        "join": {"token": "mst_join_x", "csr": "x", "name": "other", "agent_version": "0", "inventory": node.inventory},
    }


def in_session(node, seed):
    """Sends requests with one change each; returns the responses that violate the document."""
    draw, faults, answers = random.Random(seed), [], {}
    documented = {verb: set(json.loads(DOCUMENT.read_text())["paths"][f"/node/v1/{verb}"]["post"]["responses"]) for verb in bodies(node)}
    connection = node.connect(node.certificate, node.key)
    for _ in range(MUTATED):
        verb = draw.choice(list(documented))
        sent = mutated(draw, bodies(node)[verb])
        connection.request("POST", f"/node/v1/{verb}", json.dumps(sent), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        answers[answer.status] = answers.get(answer.status, 0) + 1
        if answer.status >= 500 or str(answer.status) not in documented[verb]:
            faults.append(f"{verb} {json.dumps(sent)[:600]}: {answer.status} {text[:300]!r}")
        elif verb == "hello" and answer.status == 200:
            node.session = json.loads(text)["session"]
        if answer.will_close:
            connection.close()
    connection.close()
    return faults, answers


def fuzz(seed, examples=10):
    """Runs both on a fresh server; returns whether all responses matched the document, and the number of cases."""
    began = time.monotonic()
    rates = {"limits-actor-per-second": "1000000", "limits-address-per-second": "1000000"}
    with Folder() as folder, Testbed(folder, {"log-level": "debug,hyper=off,sqlx=off,reqwest=off", **rates}) as testbed:
        node = Node(testbed, "fuzzed", "127.0.0.13").join()
        before = testbed.server.log().count('"entry":"agent"')
        ran = subprocess.run(
            [str(Path(sys.executable).parent / "schemathesis"), "run", str(DOCUMENT), "--url", f"https://127.0.0.1:{testbed.nodes_port}",
             "--tls-verify", "false", "--request-cert", str(node.certificate), "--request-cert-key", str(node.key), "--checks", CHECKS,
             "--max-examples", str(examples), "--seed", str(seed), "--workers", "1", "--phases", "examples,coverage,fuzzing",
             "--request-timeout", "15", "--generation-database", "none", "--no-color", "--max-failures", "5",
             "--suppress-health-check", "all"],
            capture_output=True, text=True, cwd=folder, timeout=600)
        schemathesis = testbed.server.log().count('"entry":"agent"') - before
        node.hello()
        faults, answers = in_session(node, seed)
        ok = ran.returncode == 0 and not faults and testbed.server.process.poll() is None
    cases = schemathesis + MUTATED
    print(f"  {'node':16} {cases:6} cases  {answers} in its session  {time.monotonic() - began:4.0f} s  {'ok' if ok else 'FAILED'}", flush=True)
    if not ok:
        for heading in ("= ERRORS", "= FAILURES"):
            at = ran.stdout.find(heading)
            if at >= 0:
                print(ran.stdout[at:at + 4000])
        print(ran.stdout[-1000:], ran.stderr[-1000:], *faults[:5], sep="\n")
    return ok, cases
