"""A PostgreSQL of our own from tools/with-postgres, and pgbench as the yardstick on it."""

import os
import pathlib
import re

from .machine import first_line
from .processes import ROOT, Broken, Process, output_of

SCRIPT = pathlib.Path(__file__).resolve().parent / "commit.sql"
SETTINGS = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method", "shared_buffers")
# The inner command prints the server's address and waits for its input to close: then everything is removed.
TELL = ('printf "%s\\n" "$MUSTER_TEST_POSTGRES" "$MUSTER_TEST_POSTGRES_PID" "$MUSTER_TEST_POSTGRES_BIN" && exec cat')


class Postgres:
    def __init__(self, folder):
        env = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
        command = [ROOT / "tools/with-postgres", "sh", "-c", TELL]
        self.process = Process("postgres", command, env, folder / "postgres.log", reads_output=True)
        lines = [self.process.child.stdout.readline().strip() for _ in range(3)]
        if not lines[2]:
            raise Broken(f"PostgreSQL did not start:\n{self.process.last_words()}")
        self.url, self.pid, self.bin = lines[0], int(lines[1]), pathlib.Path(lines[2])
        self.port = re.search(r":(\d+)/", self.url)[1]

    def stop(self):
        self.process.stop()

    def sql(self, text, database="bench", timeout=120):
        where = ["-h", "127.0.0.1", "-p", self.port, "-U", "postgres", "-d", database]
        # By its input: a list of a thousand ids would be too long for a command line.
        command = [self.bin / "psql", *where, "-v", "ON_ERROR_STOP=1", "-qAt"]
        return output_of(command, timeout=timeout, input=text).strip()

    def copy(self, table, columns, rows, database):
        """Many rows at once."""
        where = ["-h", "127.0.0.1", "-p", self.port, "-U", "postgres", "-d", database]
        text = "".join("\t".join(map(str, row)) + "\n" for row in rows)
        output_of([self.bin / "psql", *where, "-v", "ON_ERROR_STOP=1", "-qc", f"COPY {table} ({columns}) FROM STDIN"],
                  input=text)

    def prepare(self, rows, row_bytes):
        """Two databases: one for the server, one for pgbench with as many rows as the server has."""
        for name in ("muster", "bench"):
            self.sql(f"CREATE DATABASE {name}", "postgres")
        # A primary key that grows, as our ids do, and nothing else: the least that a durable row can cost.
        self.sql("CREATE TABLE bench_rows (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                 "name TEXT NOT NULL, body TEXT NOT NULL)")
        self.sql("INSERT INTO bench_rows (name, body) "
                 f"SELECT n::text, repeat('x', {row_bytes}) FROM generate_series(1, {rows}) n")
        self.sql("ANALYZE")
        return self.url.rsplit("/", 1)[0] + "/muster"

    def durable_settings(self):
        """How it flushes; a server that does not is no base for a comparison."""
        settings = {name: self.sql(f"SHOW {name}") for name in SETTINGS}
        if any(settings[name] != "on" for name in ("fsync", "synchronous_commit", "full_page_writes")):
            raise Broken(f"PostgreSQL is not durable here: {settings}")
        return settings

    def versions(self):
        return {name: first_line([self.bin / name, "--version"]) for name in ("postgres", "pgbench")}

    def pgbench(self, clients, row_bytes, seconds=None, transactions=None):
        bound = ["-T", str(seconds)] if seconds else ["-t", str(transactions)]
        # Over TCP, as our server connects.
        where = ["-h", "127.0.0.1", "-p", self.port, "-U", "postgres", "bench"]
        command = [self.bin / "pgbench", "-n", "-M", "prepared", "-c", clients, "-j", min(2, clients), *bound,
                   "-f", SCRIPT, "-D", f"body={'x' * row_bytes}", *where]
        return self._read(output_of(command))

    @staticmethod
    def _read(text):
        number = lambda pattern: float(re.search(pattern, text)[1])
        failed = number(r"number of failed transactions: (\d+)")
        done = number(r"number of transactions actually processed: (\d+)")
        if failed:
            raise Broken(f"pgbench: {failed:.0f} transactions failed")
        return {"ok": int(done), "per_second": number(r"tps = ([0-9.]+)"),
                "latency_ms": {"average": number(r"latency average = ([0-9.]+)")}}
