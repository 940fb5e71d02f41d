"""The client over real sockets: its requests, its retries, and its handling of errors."""

import http.server
import json
import pathlib
import sys
import threading
import typing
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from muster import Client, Lost, Problem, connection, types  # noqa: E402


class Scripted:
    """A server with scripted responses that records its requests."""

    def __init__(self, *replies):
        self.asked, waiting = [], list(replies)
        keeper = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                length = int(self.headers.get("Content-Length") or 0)
                body = self.rfile.read(length)
                keeper.asked.append((self.command, self.path, dict(self.headers), json.loads(body) if body else None))
                reply = waiting.pop(0)
                if reply is None:  # the connection is closed without a word
                    self.close_connection = True
                    return
                if isinstance(reply, bytes):  # as it is, and then the connection is closed
                    self.wfile.write(reply)
                    self.close_connection = True
                    return
                status, headers, text = reply
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = do_PATCH = do_DELETE = answer

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.client = Client(f"http://127.0.0.1:{self.server.server_port}/", "mst_sat_x\n")

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def ok(document, **headers):
    return 200, headers, json.dumps(document)


def problem(status, code, **headers):
    return status, headers, json.dumps({"code": code, "detail": "so it is", "status": status})


class ClientTest(unittest.TestCase):
    def setUp(self):
        connection.PAUSE = 0.01

    def scripted(self, *replies):
        server = Scripted(*replies)
        self.addCleanup(server.close)
        return server

    def test_a_read_has_its_path_its_query_and_its_token(self):
        server = self.scripted(ok({"items": []}))
        server.client.entitlement_list("a/b", published=True, page_size=5)
        verb, path, headers, body = server.asked[0]
        self.assertEqual((verb, path, body), ("GET", "/v1/projects/a%2Fb/entitlements?page_size=5&published=true", None))
        self.assertEqual(headers["Authorization"], "Bearer mst_sat_x")

    def test_a_command_keeps_its_key_over_repetitions(self):
        server = self.scripted(None, problem(503, "unavailable"), ok({"id": "tok_1"}))
        server.client.operator_token_mint("p", {"entitlement": "ent_1"})
        keys = {headers["Idempotency-Key"] for _, _, headers, _ in server.asked}
        self.assertEqual((len(server.asked), len(keys)), (3, 1))
        self.assertEqual(server.asked[0][3], {"entitlement": "ent_1"})

    def test_what_has_no_key_is_not_repeated(self):
        server = self.scripted(None)
        with self.assertRaises(Lost):
            server.client.adapter_step_lease("p", {"adapter": {"name": "n", "version": "1", "contract": 1}})
        self.assertEqual(len(server.asked), 1)

    def test_a_refusal_is_a_problem_with_its_code(self):
        server = self.scripted(problem(409, "fenced"), problem(429, "rate_limited", **{"Retry-After": "7"}))
        with self.assertRaises(Problem) as caught:
            server.client.whoami()
        self.assertEqual((caught.exception.status, caught.exception.code, caught.exception.passing), (409, "fenced", False))
        with self.assertRaises(Problem) as caught:
            server.client.whoami()
        self.assertEqual((caught.exception.passing, caught.exception.retry_after), (True, 7.0))

    def test_a_token_does_not_follow_a_redirect(self):
        server = self.scripted((302, {"Location": "/elsewhere"}, ""))
        with self.assertRaises(Lost):
            server.client.whoami()
        self.assertEqual(len(server.asked), 1)

    def test_a_version_is_written_as_an_entity_tag(self):
        server = self.scripted(ok({}), ok({}))
        server.client.project_update("p", {"description": "d"}, if_match=3)
        server.client.project_update("p", {"description": "d"}, if_match='"4"')
        self.assertEqual([headers["If-Match"] for _, _, headers, _ in server.asked], ['"3"', '"4"'])

    def test_what_is_no_platform_is_said_to_be_none(self):
        server = self.scripted((200, {}, "<html>"), (404, {}, "<html>"))
        for _ in range(2):
            with self.assertRaises(Lost):
                server.client.whoami()
        self.assertEqual(len(server.asked), 2, "neither is asked again")

    def test_lines_come_one_by_one(self):
        server = self.scripted((200, {}, '{"a": 1}\n{"a": 2}\n'))
        self.assertEqual(list(server.client.lines("GET", "/x")), ['{"a": 1}', '{"a": 2}'])

    def test_lines_that_are_cut_off_are_lost_and_no_end(self):
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        counted = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
        for cut in (chunked + b"4\r\none\n\r\n", chunked + b"8\r\none\ntw", chunked + b"4\r\none\n", counted + b"one\ntw"):
            server, came = self.scripted(cut), []
            with self.assertRaises(Lost, msg=cut):
                for line in server.client.lines("GET", "/v1/events"):
                    came.append(line)
            self.assertEqual(came, ["one"], cut)
        whole = chunked + b"6\r\none\ntw\r\n3\r\no\r\n\r\n3\r\nend\r\n0\r\n\r\n"
        self.assertEqual(list(self.scripted(whole).client.lines("GET", "/v1/events")), ["one", "two", "end"])

    def test_nothing_climbs_out_of_its_path(self):
        for wrong in ("", ".", ".."):
            with self.assertRaises(ValueError):
                self.scripted().client.project_get(wrong)

    def test_every_type_and_every_signature_can_be_resolved(self):
        found = [thing for thing in vars(types).values() if typing.is_typeddict(thing)]
        self.assertGreater(len(found), 200)
        for thing in found:
            typing.get_type_hints(thing)
        methods = [thing for name, thing in vars(Client).items() if not name.startswith("_")]
        self.assertGreater(len(methods), 100)
        for method in methods:
            self.assertIn("return", method.__annotations__)


if __name__ == "__main__":
    unittest.main()
