"""The program as its users run it: `muster up`, backups, key rotation, and the command line's answers and exit codes."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from platform_under_test import BINARY, Folder, Server, free_port  # noqa: E402


def clean_environment(home):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
    environment.update(HOME=str(home), XDG_CONFIG_HOME=str(home / "config"))
    return environment


def muster(home, *words, server=None, token=None, input=None):
    environment = clean_environment(home)
    if server:
        environment["MUSTER_SERVER"] = f"http://127.0.0.1:{server.port}"
        environment["MUSTER_TOKEN"] = token or server.operator_token()
    return subprocess.run([BINARY, *words], env=environment, capture_output=True, text=True, input=input, timeout=60)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


class Up(unittest.TestCase):
    def start(self, folder):
        port = free_port()
        process = subprocess.Popen(
            [BINARY, "up", "--http-listen", f"127.0.0.1:{port}", "--nodes-listen", "127.0.0.1:0",
             "--data-dir", str(folder / "data")],
            env=clean_environment(folder), stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            if "muster is up" in line:
                return process, children(process.pid)
        self.fail("it did not come up")

    def gone_within(self, pids, seconds):
        until = time.monotonic() + seconds
        while any(alive(pid) for pid in pids):
            self.assertLess(time.monotonic(), until, "something still runs")
            time.sleep(0.05)

    def test_ctrl_c_stops_everything_cleanly(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with Folder() as folder:
                process, started = self.start(folder)
                self.assertEqual(len(started), 1)
                process.send_signal(number)
                said = process.stdout.read()
                self.assertEqual(process.wait(30), 0)
                self.assertIn("nothing runs any more", said)
                self.gone_within(started, 5)
                process.stdout.close()

    def test_even_a_killed_up_leaves_nothing_running(self):
        with Folder() as folder:
            process, started = self.start(folder)
            process.kill()
            process.wait()
            process.stdout.close()
            self.gone_within(started, 15)

    def test_a_taken_port_is_explained(self):
        with Folder() as folder:
            process, _ = self.start(folder)
            listening = [line for line in Path(f"/proc/{children(process.pid)[0]}/cmdline").read_text().split("\0")]
            address = listening[listening.index("--http-listen") + 1]
            second = muster(folder, "up", "--http-listen", address, "--data-dir", str(folder / "other"))
            self.assertEqual(second.returncode, 1)
            self.assertIn("already listens", second.stderr)
            process.terminate()
            process.wait(30)
            process.stdout.close()


class WithServer(unittest.TestCase):
    def setUp(self):
        self.opened = Folder()
        self.folder = self.opened.__enter__()
        self.server = Server(self.folder)
        self.server.start()

    def tearDown(self):
        self.server.stop()
        self.opened.__exit__(None, None, None)

    def muster(self, *words, **rest):
        return muster(self.folder, *words, server=self.server, **rest)

    def said(self, *words):
        answer = self.muster("-o", "json", *words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)


class Backup(WithServer):
    def test_a_backup_made_while_running_restores_to_the_same_platform(self):
        self.said("tenant", "create", "--slug", "acme")
        backup = self.folder / "backup"
        made = self.muster("server", "backup", "--data-dir", str(self.folder), str(backup))
        self.assertEqual(made.returncode, 0, made.stderr)
        for name in ("muster.db", "root.key"):
            self.assertEqual(stat.S_IMODE((backup / name).stat().st_mode), 0o600, name)
        self.assertEqual(self.muster("server", "backup", "--data-dir", str(self.folder), str(backup)).returncode, 1)
        self.said("tenant", "create", "--slug", "later")
        token = self.server.operator_token()

        restored = Server(self.folder / "restored")
        put = self.muster("server", "restore", "--data-dir", str(restored.data), str(backup))
        self.assertEqual(put.returncode, 0, put.stderr)
        again = self.muster("server", "restore", "--data-dir", str(restored.data), str(backup))
        self.assertIn("nothing is overwritten", again.stderr)
        (restored.data / "operator.token").write_text(token)
        restored.start()
        try:
            slugs = [tenant["slug"] for tenant in restored.call("GET", "/v1/tenants")["items"]]
            self.assertEqual(slugs, ["acme"], "what was there when it was made, and nothing later")
        finally:
            restored.stop()


class RootKey(WithServer):
    def test_the_root_key_rotates_under_a_running_server(self):
        self.said("tenant", "create", "--slug", "acme")
        self.said("webhook", "create", "--name", "hook", "--url", "https://hooks.example/", "--tenant", "acme")
        key = lambda *words: self.muster("server", "root-key", *words, "--data-dir", str(self.folder))  # noqa: E731
        old = key("list").stdout.split()[0]
        self.assertEqual(key("rotate").returncode, 0)
        new = key("list").stdout.split()[0]
        self.assertNotEqual(old, new)
        refused = key("retire", old)
        until = time.monotonic() + 60
        while refused.returncode != 0:
            self.assertIn("still wrapped", refused.stderr)
            self.assertLess(time.monotonic(), until, "the server did not move the keys")
            time.sleep(1)
            refused = key("retire", old)
        self.assertEqual(key("list").stdout.split()[0], new)
        self.said("tenant", "create", "--slug", "after")
        self.server.stop()
        self.server.start()
        self.assertEqual(len(self.said("tenant", "list")["items"]), 2)


class CommandLine(WithServer):
    def test_answers_exit_codes_and_what_to_do_next(self):
        self.assertEqual(self.said("tenant", "create", "--slug", "acme", "--label", "tier=gold")["version"], 1)
        self.assertIn("acme", self.muster("tenant", "list").stdout)
        self.assertEqual(self.muster("-o", "name", "tenant", "list").stdout.strip()[:4], "acme"[:4])
        for words, code, hint in (
            (("tenant", "get", "nothing"), 5, "next:"),
            (("tenant", "create", "--slug", "acme"), 6, "name"),
            (("tenant", "create", "--slug", "A B"), 7, "SLUG:"),
            (("tenant", "create"), 2, "--slug"),
            (("tenant", "dance"), 2, "dance"),
        ):
            answer = self.muster(*words)
            self.assertEqual(answer.returncode, code, f"{words}: {answer.stderr}")
            self.assertIn(hint, answer.stderr)
        self.assertEqual(self.muster("whoami", token="mst_pat_wrong").returncode, 3)
        self.server.stop()
        unreachable = self.muster("whoami", token="x")
        self.assertEqual(unreachable.returncode, 9)
        self.assertIn("muster up", unreachable.stderr)
        self.server.start()

    def test_changes_carry_the_version_that_was_seen(self):
        self.said("tenant", "create", "--slug", "acme")
        changed = self.said("tenant", "update", "acme", "--display-name", "Acme")
        self.assertEqual((changed["display_name"], changed["version"]), ("Acme", 2))
        self.assertEqual(self.muster("tenant", "update", "acme", "--display-name", "x", "--if-match", '"1"').returncode, 6)
        self.assertEqual(self.said("tenant", "delete", "acme")["removed"], {})

    def test_a_login_lasts_until_the_logout(self):
        home = self.folder / "home"
        home.mkdir()
        token_file = str(self.folder / "operator.token")
        url = f"http://127.0.0.1:{self.server.port}"
        self.said("user", "create", "--email", "sam@localhost", "--password-file", self.secret("a long enough one"))
        login = muster(home, "login", "--server", url, "--email", "sam@localhost", "--password-stdin", input="a long enough one")
        self.assertEqual(login.returncode, 0, login.stderr)
        kept = next((home / "config").rglob("*.toml"))
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o600)
        self.assertIn("sam@localhost", muster(home, "whoami").stdout)
        secret = [word for word in kept.read_text().replace('"', " ").split() if word.startswith("mst_pat_")][0]
        self.assertEqual(muster(home, "logout").returncode, 0)
        self.assertNotEqual(muster(home, "whoami").returncode, 0)
        self.assertEqual(self.muster("whoami", token=secret).returncode, 3, "the token itself is dead too")
        self.assertEqual(muster(home, "login", "--server", url, "--token-file", token_file).returncode, 0)

    def secret(self, text):
        path = self.folder / "secret"
        path.write_text(text)
        path.chmod(0o600)
        return str(path)

    def test_events_are_followed_live(self):
        follow = subprocess.Popen(
            [BINARY, "-o", "json", "events", "--follow", "--after", "0"], text=True, stdout=subprocess.PIPE,
            env={**clean_environment(self.folder), "MUSTER_SERVER": f"http://127.0.0.1:{self.server.port}",
                 "MUSTER_TOKEN": self.server.operator_token()})
        try:
            self.said("tenant", "create", "--slug", "acme")
            event = json.loads(follow.stdout.readline())
            self.assertEqual((event["type"], event["sequence"]), ("dev.muster.tenant.created.v1", 1))
        finally:
            follow.terminate()
            follow.wait()
            follow.stdout.close()

    def test_settings_are_shown_and_wrong_ones_named(self):
        shown = self.muster("server", "settings", "--http-listen", "127.0.0.1:9")
        self.assertIn("127.0.0.1:9", shown.stdout)
        wrong = self.folder / "wrong.toml"
        wrong.write_text("[http]\nlisen = 'x'\n")
        refused = self.muster("server", "settings", "--config", str(wrong))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("http.lisen", refused.stderr)
        exposed = self.muster("server", "--http-listen", "0.0.0.0:0", "--data-dir", str(self.folder / "x"))
        self.assertEqual(exposed.returncode, 1)
        self.assertIn("tls.cert_file", exposed.stderr)

    def test_completion_covers_the_whole_program(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.muster("completion", shell).stdout
            for word in ("service-account", "server", "up", "rotate-key"):
                self.assertIn(word, script, shell)


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=1).result
    failed = len(result.failures) + len(result.errors)
    print(f"e2e: {result.testsRun - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)
