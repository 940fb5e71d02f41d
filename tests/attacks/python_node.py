"""A node implemented by this test: it joins with a token, has a certificate, and only reports its tasks without executing them.

It shares no code with the agent, so that it can send requests that an agent would not.
"""

import base64
import http.client
import json
import ssl
import subprocess
import threading
import time
import uuid

MODEL = "a machine of the tests"


def inventory(name):
    return {
        "hostname": name, "kernel": "6.1.0", "os": "Debian", "architecture": "x86_64", "boot_id": str(uuid.uuid4()),
        "cpus": {"count": 32, "sockets": 1, "model": MODEL}, "memory_mb": 65536, "disk_mb": 65536, "numa": [], "pci": [],
        "network": [], "gpus": [], "simulated": True, "notes": [],
    }


class Node:
    """A node's certificate, and requests with it."""

    def __init__(self, testbed, name, address):
        self.testbed, self.name, self.address = testbed, name, address
        self.folder = testbed.folder / f"node-{name}"
        self.folder.mkdir()
        self.inventory = inventory(name)
        self.session, self.revision, self.desired = 0, 0, None
        self.cells, self.sandboxes, self.tasks = {}, {}, []
        self.ended, self.lock, self.thread = threading.Event(), threading.Lock(), None

    # Requests.

    def request_of(self, file, subject="/"):
        """A certificate request for a new key, as PEM."""
        key, request = self.folder / f"{file}.key", self.folder / f"{file}.csr"
        subprocess.run(
            ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key,
             "-out", request, "-subj", subject, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
            check=True, capture_output=True)
        return key, request.read_text()

    def connect(self, certificate=None, key=None):
        """A connection with this certificate; without one while it joins."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if certificate:
            context.load_cert_chain(certificate, key)
        return http.client.HTTPSConnection("127.0.0.1", self.testbed.nodes_port, timeout=30, context=context,
                                           source_address=(self.address, 0))

    def ask(self, method, path, body=None, headers=None, certificate=None, key=None):
        """One request as this node: status, headers, body."""
        connection = self.connect(certificate or self.certificate, key or self.key)
        try:
            sent = {"Content-Type": "application/json", **(headers or {})} if body is not None else dict(headers or {})
            connection.request(method, path, json.dumps(body) if body is not None else None, sent)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def say(self, verb, body):
        """A request that must succeed."""
        status, _, text = self.ask("POST", f"/node/v1/{verb}", body)
        assert status == 200, f"{self.name} {verb}: {status} {text[:500]!r}"
        return json.loads(text)

    def join(self, approve=True):
        enrolment = self.testbed.server.call("POST", "/v1/nodes/enrol", {"name": self.name})
        self.certificate = self.key = None
        self.key, request = self.request_of("first")
        joined = self.say("join", {"token": enrolment["token"], "csr": request, "name": self.name, "agent_version": "0.0.1",
                                   "inventory": self.inventory})
        self.id = joined["node_id"]
        self.certificate = self.folder / "first.crt"
        self.certificate.write_text(joined["certificate"])
        self.hello()
        if approve:
            found = self.testbed.server.call("GET", f"/v1/nodes/{self.id}")
            self.testbed.node_command(self.id, "approve", {"digest": found["inventory_digest"]})
        return self

    def hello(self, address=None, **more):
        with self.lock:
            places = [{"allocation_id": allocation, "incarnation": place["incarnation"]} for allocation, place in self.sandboxes.items()]
            cells = [{"allocation_id": cell["allocation_id"], "cell_id": cell_id, "incarnation": cell["incarnation"]}
                     for cell_id, cell in self.cells.items()]
            welcome = self.say("hello", {"agent_version": "0.0.1", "inventory": self.inventory, "sandboxes": places, "cells": cells,
                                         "address": address or self.address, **more})
            self.session = welcome["session"]
        return welcome

    def secret(self, cell, incarnation, what):
        """Requests a secret of a cell: status and content, or the error's body."""
        status, _, text = self.ask("POST", "/node/v1/secret", {
            "session": self.session, "cell_id": cell, "incarnation": incarnation, "what": what})
        return status, base64.b64decode(json.loads(text)["value"]) if status == 200 else text

    # Behaviour of an honest agent.

    def serve(self):
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()
        return self

    def work(self):
        while not self.ended.is_set():
            with self.lock:
                try:
                    self.poll_once()
                except (OSError, AssertionError, http.client.HTTPException):
                    if self.ended.is_set():
                        return
            time.sleep(0.05)

    def poll_once(self):
        work = self.say("poll", {"session": self.session, "wait_seconds": 0, "revision": self.revision, "observed": True})
        if work.get("desired"):
            self.desired, self.revision = work["desired"], work["desired"]["revision"]
        reports = [self.report_of(task) for task in work["tasks"]]
        self.tasks += work["tasks"]
        if reports:
            self.say("report", {"session": self.session, "reports": reports})

    def report_of(self, task):
        act, cell_id = task["act"], (task["act"].get("cell") or {}).get("cell_id")
        kind, allocation = act["kind"], (act.get("allocation") or {}).get("allocation_id")
        if kind in ("prepare", "resize"):
            self.sandboxes[allocation] = {"incarnation": task["incarnation"], **act["resources"]}
        elif kind == "destroy":
            self.sandboxes.pop(allocation, None)
        elif kind == "cell_create":
            self.cells[cell_id] = {"allocation_id": allocation, "incarnation": act["cell"]["incarnation"],
                                   "address": (act.get("attachment") or {}).get("address")}
        elif kind == "cell_destroy":
            self.cells.pop(cell_id, None)
        place = self.sandboxes.get(allocation)
        findings = {"present": place is not None, "incarnation": place["incarnation"] if place else 0,
                    "devices": place["devices"] if place else [], "residue": [], "checked": ["the tests' own notes"],
                    "amount": place["amount"] if place else {"cpus": 0, "memory_mb": 0, "disk_mb": 0}}
        if cell_id:
            cell = self.cells.get(cell_id)
            findings["cell"] = {"present": cell is not None, "incarnation": cell["incarnation"] if cell else 0,
                                "pid": 4242 if cell else 0, "devices": [], "services": [], "checked": ["the tests' own notes"],
                                "left": []}
            if cell and cell["address"]:
                findings["cell"]["address"] = cell["address"]
        return {"task_id": task["id"], "incarnation": task["incarnation"], "generation": task["generation"], "ending": "done",
                "findings": findings}

    def neighbours(self):
        """Returns the node's desired destination for the packets of each cell."""
        networks = self.desired["networks"] if self.desired else []
        return {member["cell_id"]: member["node_address"] for network in networks for member in network["neighbours"]}

    def stop(self):
        self.ended.set()
        if self.thread:
            self.thread.join()
