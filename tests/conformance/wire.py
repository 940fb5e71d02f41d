"""The wire between an adapter and the platform, and what can happen on it.

It passes everything on, and knows each step from the answer that leased it. At a chosen request of a chosen step it strikes: the
adapter is killed or stopped, or an answer gets lost. So no adapter needs code for being tested.
"""

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Not passed on: they are about one connection.
HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}
STEP = re.compile(r"/adapter-steps/([^/?]+)/(heartbeat|progress|complete|fail|tasks)$")


@dataclass
class Strike:
    """A fault and its point: at the n-th request of this kind in a step of this verb and component."""

    verb: str
    component: str | None
    at: str  # leased, task, complete
    what: str  # kill-before, kill-after, stop, unheard, dropped, fail, cell, cell-kill
    number: int = 1
    fired: threading.Event = field(default_factory=threading.Event)
    step: dict | None = None
    # The member with the killed cell.
    lost: str | None = None
    # A request of the struck process, which is sent after another process has leased the step.
    stale_copy: tuple | None = None

    def __str__(self):
        place = "lease" if self.at == "leased" else f"task {self.number}" if self.at == "task" else "completion"
        said = {"kill-before": f"killed before its {place}" if self.at != "leased" else "killed when it got its lease",
                "kill-after": f"killed after its {place}", "stop": f"stopped at its {place}, and a stale copy later",
                "unheard": f"the answer to its {place} lost", "dropped": f"its {place} lost", "fail": "failed",
                "cell": f"the cell of its checks killed at its {place}",
                "cell-kill": f"the cell of its checks and the adapter killed at its {place}"}[self.what]
        return f"{self.verb} of {self.component or 'the instance'}: {said}"


class Wire(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), Handler)
        self.upstream, self.strikes, self.lock = port, [], threading.Lock()
        # By step: its verb and component, the highest leased generation, and the number of tasks of each generation.
        self.steps, self.tasks, self.ended = {}, {}, []
        # Accepted requests with a stale generation. It must stay empty.
        self.stale = []
        self.killer = self.stopper = None
        # Kills the cell in which the checks of a step run.
        self.cell_killer = None
        self.under_way = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        """A process that was killed hangs up in the middle of a word."""

    def close(self):
        self.shutdown()
        self.server_close()

    @property
    def port(self):
        return self.server_address[1]

    def arm(self, strike):
        with self.lock:
            self.strikes.append(strike)
        return strike

    def due(self, step, at, number=1):
        """The strike that falls here, which is then taken off: it falls once."""
        with self.lock:
            for strike in self.strikes:
                if (strike.verb, strike.at, strike.number) == (step["verb"], at, number) and strike.component == step["component"]:
                    self.strikes.remove(strike)
                    strike.step = step
                    return strike
        return None

    def leased(self, answer):
        """Records the leased steps; returns the faults at leases."""
        struck = []
        for one in answer.get("steps", []):
            step, members = one["step"], one["snapshot"]["members"]
            about = next((m["component_key"] for m in members if m["id"] == step.get("member_id")), None)
            known = {"id": step["id"], "verb": step["verb"], "component": about, "generation": step["generation"],
                     "instance": one["snapshot"]["instance"], "member": step.get("member_id")}
            with self.lock:
                self.steps[step["id"]] = known
            strike = self.due(known, "leased")
            if strike:
                struck.append(strike)
        return struck

    def send(self, method, path, headers, body):
        """One request to the platform: status, headers, body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.upstream, timeout=120)
        connection.connect()
        with self.lock:
            self.under_way.add(connection)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            with self.lock:
                self.under_way.discard(connection)
            connection.close()

    def hang_up(self):
        """Drops the pending responses of a killed process."""
        with self.lock:
            for connection in self.under_way:
                with contextlib.suppress(OSError):
                    connection.sock.shutdown(socket.SHUT_RDWR)


class Lost(Exception):
    """The response is lost."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 65536

    def log_message(self, *_):
        pass

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
        headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP}
        headers["Host"] = f"127.0.0.1:{self.server.upstream}"
        try:
            status, given, answer = self.carried(body, headers)
            self.send_response_only(status)
            for name, value in given:
                if name.lower() not in HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except (Lost, OSError, http.client.HTTPException):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = pass_on

    def carried(self, body, headers):
        wire, path = self.server, self.path.partition("?")[0]
        request = (self.command, self.path, headers, body)
        said = STEP.search(path) if self.command == "POST" else None
        step = wire.steps.get(said[1]) if said else None
        if step is None:
            status, given, answer = wire.send(*request)
            if path.endswith("/adapter-steps/lease") and status == 200:
                for strike in wire.leased(json.loads(answer)):
                    if self.kills_a_cell(strike) != "cell":
                        self.strike(strike)
            return status, given, answer
        generation = json.loads(body)["generation"]
        strike = self.look_up(step, said[2], generation)
        if strike and strike.what == "fail":
            wish = {"generation": generation, "reason": "conformance", "message": "the suite had it fail"}
            request = (self.command, self.path.replace("/complete", "/fail"), headers, json.dumps(wish).encode())
        elif strike and self.kills_a_cell(strike) == "cell":
            strike = None
        elif strike and strike.what in ("kill-before", "stop", "dropped", "cell-kill"):
            strike.stale_copy = request
            self.strike(strike)
        status, given, answer = wire.send(*request)
        stale = generation < wire.steps[said[1]]["generation"]
        if stale and status < 300:
            wire.stale.append(f"{said[2]} of {step['verb']} with generation {generation}")
        if said[2] in ("complete", "fail") and status < 300:
            wire.ended.append({**step, "how": said[2], "generation": generation, "at": time.monotonic()})
        if strike and strike.what == "fail":
            strike.fired.set()
        elif strike:
            self.strike(strike)
        return status, given, answer

    def look_up(self, step, word, generation):
        """The strike at this request, if one falls here."""
        wire = self.server
        if word == "tasks":
            with wire.lock:
                counted = wire.tasks.setdefault(step["id"], {})
                counted[generation] = number = counted.get(generation, 0) + 1
            return wire.due(step, "task", number)
        return wire.due(step, word) if word == "complete" else None

    def kills_a_cell(self, strike):
        """Kills the cell of a fault, if it has one. Without the adapter the request continues normally."""
        if strike.what in ("cell", "cell-kill"):
            self.server.cell_killer(strike)
        if strike.what == "cell":
            strike.fired.set()
        return strike.what

    def strike(self, strike):
        """The process is dead or stopped, or the answer is lost."""
        if strike.what.startswith("kill") or strike.what == "cell-kill":
            self.server.killer()
        elif strike.what == "stop":
            self.server.stopper()
        strike.fired.set()
        raise Lost
