"""The registry against third-party clients, against the specification, and against attackers.

Each stage has its own server. A stage is a list of checks; a failed one does not prevent the others from running, so
that one run reports all faults.
"""

import argparse
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.append(str(Path(__file__).resolve().parent.parent / "cells"))
import attacks  # noqa: E402
import clients  # noqa: E402
import external  # noqa: E402
import kills  # noqa: E402
import memory  # noqa: E402
import protocol  # noqa: E402
import trust  # noqa: E402
from platform_under_test import Folder  # noqa: E402

STAGES = {
    "clients": clients.run,
    "protocol": protocol.run,
    "attacks": attacks.run,
    "external": external.run,
    "memory": memory.run,
    "kills": kills.run,
    "trust": trust.run,
}


class Report:
    """The findings, and the extent of the run."""

    def __init__(self, options):
        self.long, self.seed = options.long, options.seed
        self.passed, self.failed = 0, []

    def check(self, check, *given):
        """Runs one check; its name is a sentence of what must hold."""
        self.passed += self.attempt(check.__name__.replace("_", " "), check, *given)

    def attempt(self, name, what, *given):
        try:
            what(*given)
            return True
        except Exception as error:  # noqa: BLE001
            where = traceback.extract_tb(error.__traceback__)
            line = next((frame for frame in reversed(where) if "tests/registry" in frame.filename), where[-1])
            said = f"{type(error).__name__}: {error}" if str(error) else f"{type(error).__name__} at {line.line}"
            self.failed.append(name)
            print(f"  FAILED  {name} ({Path(line.filename).name}:{line.lineno})\n          {said[:3000]}", flush=True)
            return False

    def say(self, text):
        print(f"  {text}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=STAGES)
    parser.add_argument("--long", action="store_true", help="more kills, more bytes")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    report = Report(options)
    for name, stage in STAGES.items():
        if options.only not in (None, name):
            continue
        begun, before = time.monotonic(), (report.passed, len(report.failed))
        with Folder() as folder:
            # A stage's set-up may fail as well, and is then a failure of its own.
            report.attempt(f"{name} can be tried at all", stage, folder, report)
        passed, failed = report.passed - before[0], len(report.failed) - before[1]
        print(f"{name:10} {passed:3} passed, {failed} failed, {time.monotonic() - begun:6.1f} s", flush=True)
    print(f"registry: {report.passed} passed, {len(report.failed)} failed")
    return 1 if report.failed or not report.passed else 0


if __name__ == "__main__":
    sys.exit(main())
