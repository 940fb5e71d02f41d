"""Apps, members and adapters: every reported completion is verified."""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fleet"))
sys.path.insert(0, str(Path(__file__).resolve().parent))
import deaths  # noqa: E402
import liars  # noqa: E402
import slice as whole  # noqa: E402
from platform_under_test import Folder, PostgresDatabase  # noqa: E402
from shop import Shop  # noqa: E402
from world import Agents, Replica, Tenant  # noqa: E402

SCENARIOS = {
    "slice": whole.works,
    "python": whole.in_python,
    "quorum": whole.quorum,
    "liars": liars.every_verb,
    "forgers": liars.forgers,
    "join-fails": liars.join_fails,
    "adapter-dies": deaths.adapter_dies,
    "stale_copy": deaths.stale_copy,
}


class World:
    """A platform with simulated nodes and an app in its catalog."""

    def __init__(self, folder, database):
        self.replica = Replica(folder, database, settings={"nodes-heartbeat-seconds": "1"})
        self.replica.start()
        self.agents = Agents(folder, "n", 8, 4)
        self.agents.start(self.replica)
        self.tenant = Tenant(self.replica)
        self.shop = Shop(self.replica, self.tenant, folder)
        self.shop.entitle()

    def nothing_left(self):
        """No allocation of the consumer holds anything, and no simulated node has a place."""
        left = [a for a in self.tenant.all(self.replica) if a["state"] not in ("released", "failed")]
        assert not left, left

    def stop(self):
        self.agents.kill()
        self.replica.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(SCENARIOS))
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="postgres")
    options = parser.parse_args()
    broken = 0
    for name, scenario in SCENARIOS.items():
        if options.only not in (None, name):
            continue
        began = time.time()
        with Folder() as folder:
            database = PostgresDatabase()
            url = database.__enter__() if options.database == "postgres" else ""
            world = None
            try:
                world = World(folder, url)
                scenario(world)
                print(f"  ok {time.time() - began:6.1f} s  {name}: {scenario.__doc__.splitlines()[0]}", flush=True)
            except Exception as error:
                broken += 1
                print(f"  BROKEN  {name}: {type(error).__name__}: {error}", flush=True)
                if os.environ.get("MUSTER_TEST_TRACE"):
                    import traceback
                    traceback.print_exc()
                    for log in sorted(folder.glob("*.log")):
                        print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
            finally:
                if world:
                    world.stop()
                if url:
                    database.__exit__()
    if broken:
        sys.exit(f"{broken} scenarios are broken")


if __name__ == "__main__":
    main()
