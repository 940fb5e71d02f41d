"""One tenant does its worst within its limits, everything at once; another one works beside it at a person's pace."""

import sys
import time

from content import repository

from platform_under_test import ROOT

# The figure `two-tenants` of bench/ measures how much slower the other tenant is answered meanwhile.
sys.path.append(str(ROOT / "bench" / "driver"))
from flood import Flood  # noqa: E402

SECONDS = 12


def two_tenants(testbed):
    """The other tenant is answered correctly all the time: no 429, no 5xx."""
    of = testbed.attacker
    with testbed.bystanders() as bystanders, Flood(testbed.server.port, of["token"], of["project"]["id"],
                                                   repository(of, "flood")) as flood:
        time.sleep(SECONDS)
    testbed.note(f"attacker: {dict(sorted(flood.answers.items(), key=str))}, bystanders: {bystanders.rounds} rounds, "
                 f"the slowest answer {bystanders.slowest * 1000:.0f} ms")
    assert flood.answers.get(429, 0) > 0, f"the attacker did not reach its limits: {flood.answers}"
    assert bystanders.rounds > SECONDS / 2, bystanders.rounds


ATTACKS = (two_tenants,)
