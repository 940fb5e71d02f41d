"""Attacks on a server with its default limits. Each has its own server, and bystanders that must not be affected."""

import argparse
import resource
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import callers  # noqa: E402
import content  # noqa: E402
import fleet  # noqa: E402
import hostile_node  # noqa: E402
import node_crowd  # noqa: E402
import two_tenants  # noqa: E402
import unread  # noqa: E402
from testbed import AttackSucceeded, NotRun, Testbed  # noqa: E402

from platform_under_test import Folder  # noqa: E402

ATTACKS = {attack.__name__.replace("_", "-"): attack for module in (callers, content, fleet, hostile_node, node_crowd, two_tenants, unread) for attack in module.ATTACKS}
SETTINGS = {**content.SETTINGS, **unread.SETTINGS}
# Attacks that succeed today, with the reason. One that no longer does fails the run until it is taken off this list.
OPEN_FINDINGS = {}


def play(name, attack):
    """One attack on a fresh server: held, open, BROKEN or NOT RUN."""
    began, notes, fault, succeeded = time.monotonic(), [], "", False
    try:
        with Folder("muster-attacks") as folder:
            with Testbed(folder, SETTINGS.get(attack.__name__)) as testbed:
                notes = testbed.notes
                attack(testbed)
    except NotRun as reason:
        print(f"  NOT RUN {name}: {reason}", flush=True)
        return "NOT RUN"
    except Exception as error:
        fault, succeeded = traceback.format_exc(), isinstance(error, AttackSucceeded)
    result = "BROKEN" if fault else "held"
    if name in OPEN_FINDINGS and succeeded:
        result, fault, notes = "open", "", [OPEN_FINDINGS[name]]
    elif name in OPEN_FINDINGS and not fault:
        result, fault = "BROKEN", "the attack no longer succeeds: remove it from OPEN_FINDINGS\n"
    print(f"  {result:6} {name:17} {time.monotonic() - began:5.1f} s  {', '.join(notes)}\n{fault}", end="", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=ATTACKS, action="append", help="this attack alone; may be repeated")
    options = parser.parse_args()
    # Some thousand connections at once.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 16_384) if most > 0 else 16_384, most))
    results = [play(name, attack) for name, attack in ATTACKS.items() if not options.only or name in options.only]
    print("attacks: " + ", ".join(f"{results.count(word)} {word}" for word in ("held", "open", "BROKEN", "NOT RUN")))
    return 0 if results and "BROKEN" not in results else 1


if __name__ == "__main__":
    sys.exit(main())
