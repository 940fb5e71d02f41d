"""The publisher's side: its account has no access to the projects of others, but mints short-lived tokens for the operator accounts that
they consented to. One thread a consumer, each with its own token that is renewed before it expires."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

from .connection import Lost, Problem
from .generated_client import Client
from .step import log, pages

# As long as the platform lets such a token live.
LIFE = 900
# A consumer that was refused a token is retried after this many looks.
AFTER_REFUSAL = 20


class Minted:
    """The token of an operator account: minted at its first use, and again when half of its life is over. Client requests it before
    each call."""

    def __init__(self, publisher: Client, project: str, entitlement: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._publisher, self._project, self._entitlement, self._clock = publisher, project, entitlement, clock
        self._lock = threading.Lock()
        self._secret, self._fresh_until, self._minted_at = "", 0.0, 0.0

    def __call__(self) -> str:
        with self._lock:
            if self._clock() >= self._fresh_until:
                self._renew()
            return self._secret

    def forget(self) -> None:
        """The platform refused it: another is minted at the next call, but not at each of many that are refused at once."""
        with self._lock:
            if self._secret and self._clock() >= self._minted_at + 5:
                self._fresh_until = 0.0

    def _renew(self) -> None:
        wish = {"entitlement": self._entitlement, "expires_in_seconds": LIFE}
        asked = self._clock()
        try:
            token = self._publisher.operator_token_mint(self._project, wish)
        except (Problem, Lost) as error:
            if not self._secret:
                raise
            # The old one is good for a while; try again soon, and not at every call.
            log("no token could be minted in time", entitlement=self._entitlement, why=str(error))
            self._fresh_until = asked + 5
            return
        # The difference of two of the platform's own times: its clock and ours need not agree.
        life = datetime.fromisoformat(token["expires_at"]) - datetime.fromisoformat(token["created_at"])
        self._secret, self._minted_at = token["secret"], asked
        self._fresh_until = asked + life.total_seconds() / 2


class Publisher:
    """Works for every consumer that there is, and looks again and again whether there are others."""

    def __init__(self, client: Client, project: str, apps: tuple[str, ...], connect: Callable[[Minted], Client]) -> None:
        self.client, self.project, self.apps, self.connect = client, project, apps, connect
        self._stops: dict[str, threading.Event] = {}
        self._refused: dict[str, int] = {}

    def look(self, work: Callable[[Client, str, threading.Event], None]) -> None:
        """Starts work for new consumers, and ends it for removed ones. `work` runs in a thread for each, until its event is set."""
        listed = pages(lambda **page: self.client.entitlement_list(self.project, published=True, **page))
        ours = {one["id"]: one["project_id"] for one in listed if not self.apps or one["app"] in self.apps}
        self._refused = {one: left - 1 for one, left in self._refused.items() if left > 1 and one in ours}
        for gone in self._stops.keys() - ours.keys():
            self._stops.pop(gone).set()
        for entitlement, project in ours.items():
            if entitlement not in self._stops and entitlement not in self._refused:
                self._begin(entitlement, project, work)

    def _begin(self, entitlement: str, project: str, work: Callable[[Client, str, threading.Event], None]) -> None:
        minted = Minted(self.client, self.project, entitlement)
        try:
            minted()
        except Problem as error:
            log("no token could be minted", project=project, entitlement=entitlement, why=str(error))
            if not error.passing:
                # Each attempt is audited, so it is not repeated at every look.
                self._refused[entitlement] = AFTER_REFUSAL
            return
        log("working for a consumer", project=project, entitlement=entitlement)
        stop = self._stops[entitlement] = threading.Event()
        threading.Thread(target=work, args=[self.connect(minted), project, stop], daemon=True).start()


def may(who: Any, permission: str) -> bool:
    """Whether an account, as `whoami` shows it, may do this."""
    return permission in who.get("permissions", [])
