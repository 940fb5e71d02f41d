"""Figure 10: how long it takes to decide whether a signature is to be trusted, once everything is in memory."""

import re
import statistics

from .processes import ROOT, TARGET, Broken, output_of, pinned

BINARY = TARGET / "release/examples/trust_cli"
LINE = re.compile(r"^(.+): ([\d.]+)(ns|µs|ms|s) each, (\d+) of (\d+) trusted$")
MILLISECONDS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}
TIMES = 3


def build():
    output_of(["cargo", "build", "--release", "--quiet", "-p", "muster-trust", "--example", "trust_cli"], timeout=3600, cwd=ROOT)


def measured():
    """The program's output: each kind of signature, in milliseconds, and whether it is trusted."""
    found = {}
    for line in output_of(pinned("server", [BINARY, "measure"])).splitlines():
        words = LINE.match(line)
        if not words:
            raise Broken(f"trust_cli said {line!r}")
        name, number, unit, trusted, times = words.groups()
        if int(trusted) not in (0, int(times)):
            raise Broken(f"trust_cli trusted {name} only sometimes")
        found[name] = {"ms": float(number) * MILLISECONDS[unit], "trusted": int(trusted) > 0}
    return found


def signature(bench):
    bench.say("signature-verify")
    rounds = [measured() for _ in range(TIMES)]
    middle = {name: {**seen, "ms": statistics.median(one[name]["ms"] for one in rounds)} for name, seen in rounds[0].items()}
    ordinary = [seen["ms"] for seen in middle.values() if seen["trusted"]]
    if not ordinary:
        raise Broken("trust_cli trusted nothing")
    bench.add("signature-verify", {"value": max(ordinary), "decisions": middle, "rounds": rounds})
