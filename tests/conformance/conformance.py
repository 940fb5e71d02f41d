"""The conformance suite: any adapter, in any language, against a whole platform, through the public API alone."""

import argparse
import importlib
import json
import shlex
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
from adapter import Adapter  # noqa: E402
from platform_under_test import Folder, seed_of_samples  # noqa: E402
from suite import Suite  # noqa: E402
from wire import Wire  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adapter", required=True, help="the command that runs it, in one word; it gets MUSTER_SERVER and MUSTER_TOKEN_FILE")
    parser.add_argument("--app", required=True, type=Path, help="the app's manifest")
    parser.add_argument("--cells", choices=["simulated", "real"], default="simulated")
    parser.add_argument("--layout", type=Path, help="the app's image as an OCI layout, for real cells")
    parser.add_argument("--token", choices=["publisher", "operator"], default="publisher", help="whose token it wants in MUSTER_TOKEN_FILE")
    parser.add_argument("--config", type=json.loads, default={}, help="what its instances are configured with, as JSON")
    parser.add_argument("--full", action="store_true", help="every kind of trouble at every request of every step, instead of one point a step")
    parser.add_argument("--seed", type=int, default=seed_of_samples(), help="which steps lose the cell of their checks, without --full")
    options = parser.parse_args()
    began, fault = time.monotonic(), None
    with Folder() as folder:
        platform = importlib.import_module(options.cells).Platform(folder, options.app, options.layout)
        adapter = wire = None
        try:
            wire = Wire(platform.server.port)
            adapter = Adapter(shlex.split(options.adapter), platform, wire, options.token)
            suite = Suite(platform, adapter, wire, options.config, seed=options.seed, say=lambda line: print(f"  {platform.slug}: {line.strip()}", flush=True))
            (suite.full if options.full else suite.short)()
            platform.nothing_left()
        except Exception as error:
            expected = isinstance(error, AssertionError)
            fault = f"{error}" if expected else traceback.format_exc()
            if adapter:
                fault += f"\n--- the adapter\n{adapter.said()}"
            if hasattr(platform.server, "log"):
                fault += f"\n--- the server\n{platform.server.log()[-3000:]}"
        finally:
            if adapter:
                adapter.stop()
            # The suite's own port is no leftover of the platform's.
            if wire:
                wire.close()
            try:
                platform.close()
            except Exception as error:
                fault = fault or f"{error}"
    took = time.monotonic() - began
    if fault:
        sys.exit(f"  REFUSED after {took:.0f} s: {fault}")
    print(f"  ok: {options.app} stood {suite.struck} strikes, and its adapter died {adapter.deaths} times ({took:.0f} s)", flush=True)


main()
