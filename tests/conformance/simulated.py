"""A platform with simulated cells: no root, no image, seconds instead of minutes."""

import contextlib
import json
import re
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "apps"), str(TESTS / "fleet")]
import shop  # noqa: E402
from world import Agents, Replica, Tenant  # noqa: E402


class Shop(shop.Shop):
    """One that publishes any manifest, with an image that is nothing."""

    def manifest(self, version, **changes):
        document = json.loads(re.sub(r"\$\{[^}]*\}", self.digest, self.document.read_text()))
        document.update({"app": self.slug, "version": version, "reconcile_seconds": 5, **changes})
        for component in document["components"]:
            for checks in component["witnesses"].values():
                for check in checks:
                    check["within"] = "3s"
        return document


class Platform:
    def __init__(self, folder, manifest, _layout=None):
        self.folder = folder
        self.replica = Replica(folder, "", settings={"nodes-heartbeat-seconds": "1"})
        self.replica.start()
        self.agents = Agents(folder, "n", 8, 4)
        self.agents.start(self.replica)
        self.tenant = Tenant(self.replica)
        self.slug = json.loads(Path(manifest).read_text())["app"]
        self.shop = Shop(self.replica, self.tenant, folder, slug=self.slug, document=Path(manifest))
        self.entitlement = self.shop.entitle()
        self.manifest = self.shop.manifest("1.0.0")
        self.server, self.token, self.consumer = self.replica, self.tenant.token, self.shop.consumer

    def publisher_token(self):
        return self.shop.publisher_token()

    def operator_token(self, publisher):
        minted = self.server.call("POST", f"{self.shop.path}/operator-tokens", {"entitlement": self.entitlement["id"]}, token=publisher)
        return minted["secret"]

    @contextlib.contextmanager
    def cut(self, node):
        self.agents.tell(f"partition {node}")
        try:
            yield
        finally:
            self.agents.tell(f"heal {node}")

    def kill_cell(self, cell):
        answer = self.agents.tell(f"kill * {cell}")
        assert answer.startswith("ok"), answer

    def nothing_left(self):
        left = [a for a in self.tenant.all(self.replica) if a["state"] not in ("released", "failed")]
        assert not left, left

    def close(self):
        self.agents.kill()
        self.replica.stop()
