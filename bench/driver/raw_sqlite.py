"""SQLite without a server: one connection, one INSERT for each transaction, every commit flushed.

A separate program, so that its time is not ours. Python is fast enough: without the flush the same loop runs many times
faster (`ceiling` in the results), so this measures the flush.
"""

import json
import sqlite3
import sys
import time


def open_store(file, synchronous):
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("CREATE TABLE IF NOT EXISTS bench_rows "
                       "(id INTEGER PRIMARY KEY, name TEXT NOT NULL, body TEXT NOT NULL) STRICT")
    return connection


def fill(connection, rows, body):
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany("INSERT INTO bench_rows (name, body) VALUES (?, ?)", ((str(n), body) for n in range(rows)))
    connection.execute("COMMIT")


def commits(connection, body, seconds, most):
    execute, count = connection.execute, 0
    started = time.perf_counter()
    until = started + seconds
    while time.perf_counter() < until and count < most:
        execute("BEGIN IMMEDIATE")
        execute("INSERT INTO bench_rows (name, body) VALUES (?, ?)", (str(count), body))
        execute("COMMIT")
        count += 1
    return count, time.perf_counter() - started


def main():
    file, synchronous, row_bytes, rows, seconds, most = sys.argv[1:]
    body = "x" * int(row_bytes)
    connection = open_store(file, synchronous)
    fill(connection, int(rows), body)
    print("ready", flush=True)
    sys.stdin.readline()  # strace attaches now
    count, taken = commits(connection, body, float(seconds), int(most))
    level = connection.execute("PRAGMA synchronous").fetchone()[0]
    print(json.dumps({"ok": count, "seconds": taken, "per_second": count / taken, "synchronous": level}))


main()
