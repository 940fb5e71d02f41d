"""The kit beyond files and commands: services, secrets, probes, shared keys, dead cells, and tokens that are renewed."""

import http.server
import json
import pathlib
import re
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from muster import Client, Problem, adapter, publisher, step  # noqa: E402

MEMBER = {"id": "mem_1", "name": "unit-1", "component_key": "unit", "incarnation": 2}
LEASED = {
    "step": {"id": "stp_1", "verb": "join", "generation": 7, "leased_until": "2026-01-01T00:00:30Z", "member_id": "mem_1"},
    "snapshot": {"instance_id": "ins_1", "members": [MEMBER]},
}
DONE = {"id": "tsk_1", "state": "done", "queued_at": "2026-01-01T00:00:10Z", "ran": {"exit": 0, "stdout": "UP", "stderr": ""}}


class Platform:
    """Responds to each operation as the test defines: a document, or a status with a document. It records its requests."""

    def __init__(self, answers):
        self.answers, self.asked, keeper = answers, [], self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
                word = re.sub(r"^/v1/(projects/[^/]+/)?", "", self.path.partition("?")[0])
                keeper.asked.append((word, body, self.headers))
                found = keeper.answers[word]
                found = found(body, self.headers) if callable(found) else found
                status, document = found if isinstance(found, tuple) else (200, found)
                text = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def client(self, token="mst_sat_x"):
        return Client(f"http://127.0.0.1:{self.server.server_port}", token)

    def bodies(self, word):
        return [body for asked, body, _ in self.asked if asked == word]

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class KitTest(unittest.TestCase):
    def setUp(self):
        for module in (step, publisher):
            self.addCleanup(setattr, module, "log", module.log)
            module.log = lambda *_, **__: None

    def platform(self, answers):
        platform = Platform(answers)
        self.addCleanup(platform.close)
        return platform

    def step(self, platform):
        return adapter.Step(platform.client(), "p", LEASED, 30)

    def test_each_act_says_what_it_is_and_whether_it_changes_anything(self):
        platform = self.platform({"adapter-steps/stp_1/tasks": DONE})
        one = self.step(platform)
        one.write_files(MEMBER, {"/a": "x", "/b": {"text": "y", "mode": "600", "uid": 5}})
        one.secret_file(MEMBER, "rts_1", "key", uid=120)
        one.start_service(MEMBER, "d")
        one.stop_service(MEMBER, "d")
        one.restart_service(MEMBER, "d", anew=True)
        one.run(MEMBER, "/bin/mend", timeout_seconds=5)
        self.assertEqual(one.look(MEMBER, "/bin/cat", "/a")["stdout"], "UP")
        one.probe(MEMBER, "/bin/true", sees=("/run",))
        one.beside_member_steps().run(MEMBER, "/bin/mend", anew=True)
        bodies = platform.bodies("adapter-steps/stp_1/tasks")
        self.assertEqual([body["act"] for body in bodies], [
            {"files": {"write": [{"path": "/a", "text": "x"}, {"path": "/b", "text": "y", "mode": "600", "uid": 5}]}},
            {"files": {"secrets": [{"secret": "rts_1", "file": "key", "uid": 120}]}},
            {"service": {"name": "d", "action": "start"}},
            {"service": {"name": "d", "action": "stop"}},
            {"service": {"name": "d", "action": "restart"}},
            {"command": {"command": ["/bin/mend"], "timeout_seconds": 5}},
            {"command": {"command": ["/bin/cat", "/a"]}},
            {"probe": {"command": ["/bin/true"], "sees": ["/run"]}},
            {"command": {"command": ["/bin/mend"]}},
        ])
        self.assertEqual([body["effect"] for body in bodies], ["changes"] * 6 + ["reads", "reads", "concurrent"])
        self.assertEqual(len({body["key"] for body in bodies}), len(bodies))

    def test_a_dead_cell_and_a_members_step_have_a_class_each(self):
        dead = {**DONE, "state": "failed", "reason": "cell_dead", "message": "its first process ended"}
        platform = self.platform({"adapter-steps/stp_1/tasks": dead})
        with self.assertRaises(adapter.CellDead) as raised:
            self.step(platform).run(MEMBER, "/bin/true")
        self.assertIsNone(raised.exception.after, "a dead cell is not waited for")
        platform.answers["adapter-steps/stp_1/tasks"] = (409, {"code": "member_step_running", "detail": "later"})
        with self.assertRaises(adapter.MemberStepRunning):
            self.step(platform).run(MEMBER, "/bin/true")

    def test_shared_material_is_found_before_it_is_issued_and_the_former_is_revoked(self):
        secret = lambda number, **more: {  # noqa: E731
            "id": f"rts_{number}", "name": "key", "instance_id": "ins_1", "created_at": f"2026-01-0{number}T00:00:00Z", **more}
        known = [secret(1), secret(2), secret(3, revoked_at="2026-01-04T00:00:00Z"), {**secret(4), "instance_id": "ins_2"}]
        platform = self.platform({
            "runtime-secrets": lambda body, _: {**secret(9), "value": "x"} if body else {"items": known},
            "runtime-secrets/rts_1/revoke": secret(1),
        })
        one = self.step(platform)
        self.assertEqual(one.shared_secret("key"), "rts_2")
        self.assertEqual(one.shared_secret_after("key", 32, "2026-01-01T12:00:00Z"), "rts_2")
        self.assertEqual(one.shared_secret_after("key", 64, "2026-01-02T00:00:00Z"), "rts_9")
        (word, body, headers) = next(asked for asked in platform.asked if asked[1])
        self.assertEqual(body, {"purpose": "cluster_bootstrap", "name": "key", "bytes": 64, "instance": "ins_1"})
        self.assertEqual(headers["Idempotency-Key"], "ins_1-key-3", "who asks at the same moment comes by the same one")
        one.shared_secret_only("key", "rts_2")
        self.assertEqual([word for word, _, _ in platform.asked if word.endswith("/revoke")], ["runtime-secrets/rts_1/revoke"])

    def test_a_token_is_minted_once_and_renewed_at_half_of_its_life(self):
        made = []

        def mint(body, _):
            made.append(body)
            return {"secret": f"mst_opt_{len(made)}", "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:15:00Z"}

        platform = self.platform({"operator-tokens": mint})
        now = [100.0]
        minted = publisher.Minted(platform.client(), "pub", "ent_1", clock=lambda: now[0])
        self.assertEqual((minted(), minted()), ("mst_opt_1", "mst_opt_1"))
        now[0] += 449
        self.assertEqual(minted(), "mst_opt_1")
        now[0] += 2
        self.assertEqual(minted(), "mst_opt_2")
        self.assertEqual(made, [{"entitlement": "ent_1", "expires_in_seconds": 900}] * 2)
        # Without an answer the old one is used for as long as it is good.
        now[0] += 500
        platform.answers["operator-tokens"] = (429, {"code": "rate_limited"})
        self.assertEqual(minted(), "mst_opt_2")
        platform.answers["operator-tokens"] = mint
        now[0] += 6
        self.assertEqual(minted(), "mst_opt_3")

    def test_a_refused_token_is_replaced(self):
        count = iter(range(1, 9))
        mint = lambda *_: {"secret": f"mst_opt_{next(count)}", "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:15:00Z"}  # noqa: E731
        good = lambda _, headers: {"name": "x"} if headers["Authorization"].endswith("_2") else (401, {"code": "unauthenticated"})  # noqa: E731
        platform = self.platform({"operator-tokens": mint, "whoami": good})
        now = [100.0]
        client = platform.client(publisher.Minted(platform.client(), "pub", "ent_1", clock=lambda: now[0]))
        client._token()
        now[0] += 6
        with self.assertRaises(Problem):
            client.whoami()
        self.assertEqual(client.whoami()["name"], "x")

    def test_a_publisher_works_for_each_consumer_and_stops_when_it_is_gone(self):
        token = {"secret": "mst_opt_1", "created_at": "2026-01-01T00:00:00Z", "expires_at": "2026-01-01T00:15:00Z"}
        entitled = [{"id": "ent_1", "project_id": "c1", "app": "mine"}, {"id": "ent_2", "project_id": "c2", "app": "other"},
                    {"id": "ent_3", "project_id": "c3", "app": "mine"}]
        refused = (404, {"code": "not_found"})
        platform = self.platform({
            "entitlements": lambda *_: {"items": entitled},
            "operator-tokens": lambda body, _: refused if body["entitlement"] == "ent_3" else token,
        })
        at_work, begun = {}, threading.Event()

        def work(client, project, stop):
            at_work[project] = (client._token(), stop)
            begun.set()

        one = publisher.Publisher(platform.client(), "pub", ("mine",), platform.client)
        one.look(work)
        self.assertTrue(begun.wait(5))
        one.look(work)
        self.assertEqual(list(at_work), ["c1"])
        self.assertEqual(at_work["c1"][0], "mst_opt_1")
        minted = [body["entitlement"] for body in platform.bodies("operator-tokens")]
        self.assertEqual(minted, ["ent_1", "ent_3"], "one that is refused is not asked for at every look")
        del entitled[0]
        one.look(work)
        self.assertTrue(at_work["c1"][1].is_set())


if __name__ == "__main__":
    unittest.main()
