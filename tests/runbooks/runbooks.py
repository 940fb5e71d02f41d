"""Follows the runbooks: each fault is created on its own platform, and the commands of its runbook are run, word for word."""

import argparse
import contextlib
import sqlite3
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from trouble import World  # noqa: E402

import incidents  # noqa: E402
from document import blocks, queries  # noqa: E402
from grammar import Grammar, faults  # noqa: E402
from platform_under_test import ROOT, Folder, Server  # noqa: E402

RUNBOOKS = ROOT / "docs" / "runbooks"
AT_ONCE = 3
ALL = [*sorted(RUNBOOKS.glob("*.md")), *sorted(ROOT.glob("adapters/*/RUNBOOK.md")), ROOT / "docs" / "guides" / "tutorial.md"]


def parsed():
    """Every command of every runbook and of the tutorial is one that the program takes."""
    with Folder("muster-runbooks") as folder, ThreadPoolExecutor(4) as pool:
        grammar = Grammar(folder)
        found = [fault for some in pool.map(lambda file: faults(file.relative_to(ROOT), file.read_text(), grammar), ALL) for fault in some]
        assert not found, "\n" + "\n".join(found)
        return f"{grammar.judged} commands of {len(ALL)} documents"


def prepared():
    """Every query of every runbook names tables and columns that exist. Both databases have the same ones."""
    judged, found = 0, []
    with Folder() as folder:
        server = Server(folder)
        server.start()
        server.stop()
        with contextlib.closing(sqlite3.connect(f"file:{Path(folder) / 'muster.db'}?mode=ro", uri=True)) as database:
            for file in RUNBOOKS.glob("*.md"):
                for number, query in queries(file.read_text()):
                    judged += 1
                    try:
                        database.execute(f"EXPLAIN {query}")
                    except sqlite3.Error as error:
                        found.append(f"{file.relative_to(ROOT)}:{number}: {query}: {error}")
    assert judged and not found, "\n" + "\n".join(found)
    return f"{judged} queries"


def followed(incident):
    """The blocks to run of one runbook, in order, on a platform with its trouble."""
    file = RUNBOOKS / f"{incident.__name__.replace('_', '-')}.md"
    typed = 0
    with Folder() as folder:
        world = World(folder)
        try:
            trouble = incident(world)
            whole = next(trouble) == incidents.ALL
            for number, block in enumerate(block for block in blocks(file.read_text()) if block.language == "sh"):
                if number and not whole:
                    next(trouble)
                for command in block.commands:
                    ran = world.type(block.who, command)
                    typed += 1
                    assert ran.returncode == command.ends_with, (
                        f"{file.name}:{command.number}: {command.text}\n  ended with {ran.returncode}, not {command.ends_with}:\n"
                        f"{ran.stdout}{ran.stderr}{world.logs()}")
            for _ in trouble:
                pass
        finally:
            world.close()
    return f"{typed} commands typed: {incident.__doc__}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="this one alone: parse, queries, or the name of a runbook")
    options = parser.parse_args()
    every = {"parse": parsed, "queries": prepared,
             **{one.__name__.replace("_", "-"): lambda one=one: followed(one) for one in incidents.INCIDENTS}}
    wanted = {name: play for name, play in every.items() if options.only in (None, name)}
    if not wanted:
        parser.error(f"there are: {', '.join(every)}")
    # A platform waits more than it works, so several run concurrently. Processes die with the thread that started them, hence one pool for all.
    with ThreadPoolExecutor(AT_ONCE) as pool:
        good = list(pool.map(lambda one: judged(*one), wanted.items()))
    sys.exit(0 if all(good) else 1)


def judged(name, play):
    """Runs one and prints its result; returns whether it passed."""
    began = time.monotonic()
    try:
        said = play()
    except Exception:
        print(f"  BROKEN  {name}\n{traceback.format_exc()}", flush=True)
        return False
    print(f"  ok {time.monotonic() - began:5.1f} s  {name}: {said}", flush=True)
    return True


main()
