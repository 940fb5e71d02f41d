"""A step over real sockets: a lease is kept while a response is missing, and every step has a reported end."""

import http.server
import json
import pathlib
import sys
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from muster import Client, adapter, step  # noqa: E402

LEASE = 3
LEASED = {
    "step": {"id": "stp_1", "verb": "join", "generation": 7, "leased_until": "2026-01-01T00:00:00Z"},
    "snapshot": {"members": []},
}


class Platform:
    """Responds as the test defines, and records the reports of a step, by the last word of the path."""

    def __init__(self, answer=lambda word, count: None):
        self.told, keeper = [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                word = self.path.rsplit("/", 1)[1]
                keeper.told.append((word, body))
                text = json.dumps(answer(word, len(keeper.of(word))) or {}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                try:
                    self.wfile.write(text)
                except OSError:
                    pass  # the client has disconnected

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        client = Client(f"http://127.0.0.1:{self.server.server_port}", "mst_sat_x")
        self.step = adapter.Step(client, "p", LEASED, LEASE)

    def of(self, word):
        return [body for told, body in self.told if told == word]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class AdapterTest(unittest.TestCase):
    def setUp(self):
        said, step.log = step.log, lambda *_, **__: None
        self.addCleanup(setattr, step, "log", said)

    def platform(self, *arguments):
        platform = Platform(*arguments)
        self.addCleanup(platform.close)
        return platform

    def test_one_heartbeat_that_hangs_does_not_cost_the_lease(self):
        hung = threading.Event()
        self.addCleanup(hung.set)
        platform = self.platform(lambda word, count: hung.wait(30) and None if (word, count) == ("heartbeat", 1) else None)

        def slow(_step):
            time.sleep(LEASE * 1.5)
            return {"message": "done"}

        platform.step.carry({"join": slow})
        self.assertGreater(len(platform.of("heartbeat")), 1)
        self.assertEqual([body["message"] for body in platform.of("complete")], ["done"])

    def test_a_lease_that_nobody_kept_is_lost_by_the_clock(self):
        hung = threading.Event()
        self.addCleanup(hung.set)
        platform = self.platform(lambda word, _: hung.wait(30) and None if word == "heartbeat" else None)

        def slow(step):
            time.sleep(LEASE * 1.1)
            step.progress(50, "somebody else may be at it")
            return {}

        platform.step.carry({"join": slow})
        self.assertEqual((platform.of("progress"), platform.of("complete"), platform.of("fail")), ([], [], []))

    def test_a_word_of_progress_keeps_the_lease_for_as_long_as_it_was_asked_for(self):
        platform = self.platform()

        def saying(step):
            step.progress(50, "half way")
            return {}

        platform.step.carry({"join": saying})
        expected = {"generation": 7, "percent": 50, "message": "half way", "lease_seconds": LEASE}
        self.assertEqual(platform.of("progress"), [expected])

    def test_an_end_that_cannot_be_written_fails_the_step(self):
        platform = self.platform()
        platform.step.carry({"join": lambda _: {"adapter_detail": {"when": object()}}})
        (fail,) = platform.of("fail")
        self.assertEqual((fail["reason"], platform.of("complete")), ("adapter_fault", []))
        self.assertIn("not JSON serializable", fail["message"])


if __name__ == "__main__":
    unittest.main()
