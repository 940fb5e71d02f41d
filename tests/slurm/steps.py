"""The conformance suite on real cells: the adapter is killed, stopped and unheard at its steps, and every one of them ends well."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "conformance"))
from adapter import Adapter  # noqa: E402
from real import Real  # noqa: E402
from suite import Suite  # noqa: E402
from wire import Wire  # noqa: E402

from cluster import ADAPTER, CONFIG  # noqa: E402


def run(world):
    # The suite has one of its own, behind a wire that it can cut.
    world.stop_adapter()
    manifest = json.loads((world.app / "manifest.json").read_text())
    platform, wire = Real(world, manifest, "slurm"), Wire(world.server.port)
    adapter = Adapter([ADAPTER, "run", "--lease-seconds", "5", "--look-around-seconds", "1", "--wait-seconds", "2"], platform, wire)
    try:
        suite = Suite(platform, adapter, wire, CONFIG, seed=world.options.seed, say=lambda line: print(line, flush=True),
                      chosen=world.options.strikes)
        (suite.full if world.options.full else suite.short)()
        world.nothing_left()
    except Exception as fault:
        raise AssertionError(f"{fault}\n--- the adapter\n{adapter.said()}") from fault
    finally:
        adapter.stop()
        wire.close()
        world.start_adapter()
    print(f"    {suite.struck} strikes, and the adapter died {adapter.deaths} times", flush=True)
