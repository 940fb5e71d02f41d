"""How a program speaks with the platform: one connection a call, JSON both ways, repetitions only where they are safe."""

from __future__ import annotations

import copy
import http.client
import ipaddress
import json
import secrets
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, Self

# How often a call is repeated after its first attempt, and how long to wait before the first of them.
REPEATS = 3
PAUSE = 0.25
# The longest wait that the platform may ask for; beyond it the caller decides.
PATIENCE = 5.0


class Problem(Exception):
    """An error response of the platform (RFC 9457). `code` is stable, `detail` has the next action."""

    def __init__(self, status: int, document: dict[str, Any], retry_after: float | None = None) -> None:
        self.status = status
        self.code: str = document.get("code", "unknown")
        self.detail: str = document.get("detail", "")
        self.correlation_id: str = document.get("correlation_id", "")
        self.errors: list[dict[str, str]] = document.get("errors", [])
        self.retry_after = retry_after
        # A refused token may be replaced by the next moment, so it counts as passing.
        self.passing = status in (401, 408, 429) or status >= 500
        super().__init__(f"{self.code}: {self.detail}")


class Lost(Exception):
    """No answer came: perhaps it happened, perhaps it did not."""


class Unexpected(Lost):
    """Something answered that is not the platform, or not a version that we understand: asking again would not help."""


def fresh_key() -> str:
    """Returns a random idempotency key."""
    return secrets.token_hex(16)


def part(text: str) -> str:
    """A part of a path. Dots alone would climb to another path, however they are encoded."""
    if text in ("", ".", ".."):
        raise ValueError(f"{text!r} is neither a name nor an id")
    return urllib.parse.quote(text, safe="")


def tag(version: int | str) -> str:
    """A version for `If-Match`: the number that the resource shows, or the entity tag that came with it."""
    return f'"{version}"' if isinstance(version, int) else version


class _Stays(urllib.request.HTTPRedirectHandler):
    """Redirects are not followed: a token must not travel to where it was not meant."""

    def redirect_request(self, *_: Any) -> None:
        return None


class Connection:
    """A platform that can be called, from several threads at once."""

    def __init__(
        self,
        server: str,
        token: str | Callable[[], str],
        *,
        ca_file: str | None = None,
        timeout: float = 75.0,
        user_agent: str = "muster-python",
    ) -> None:
        """`token` may be a function: it is asked before each call, so that a token can be replaced while the program runs."""
        self.server = server.rstrip("/")
        self._token = token if callable(token) else lambda: token
        self._timeout = timeout
        self._user_agent = user_agent
        handlers: list[urllib.request.BaseHandler] = [_Stays()]
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca_file)))
        if _is_here(self.server):
            handlers.append(urllib.request.ProxyHandler({}))
        self._opener = urllib.request.build_opener(*handlers)

    def _forget(self) -> None:
        """The token was refused. Where it comes from may have another."""
        forget = getattr(self._token, "forget", None)
        if forget is not None:
            forget()

    def within(self, timeout: float) -> Self:
        """Returns a client for the same platform with another timeout for each response."""
        other = copy.copy(self)
        other._timeout = timeout
        return other

    def call(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        headers: dict[str, str | None] | None = None,
    ) -> Any:
        """Calls an operation and gives its document. A read may always be repeated, a command only under its key."""
        safe = method == "GET" or "Idempotency-Key" in (headers or {})
        pause = PAUSE
        for attempt in range(REPEATS + 1):
            try:
                with self._open(method, path, query, body, headers) as response:
                    text = response.read()
                return json.loads(text) if text else None
            except Unexpected:
                raise
            except (Problem, Lost) as error:
                wait = pause
                if isinstance(error, Problem):
                    if error.status == 401:
                        self._forget()
                    if error.status != 503 or (error.retry_after or 0) > PATIENCE:
                        raise
                    wait = max(pause, error.retry_after or 0)
                if not safe or attempt == REPEATS:
                    raise
            except (OSError, http.client.HTTPException) as error:
                if not safe or attempt == REPEATS:
                    raise Lost(f"the response of {self.server} was lost: {error}") from error
                wait = pause
            except ValueError as error:
                raise Unexpected(f"the answer of {self.server} is not JSON: {error}") from error
            time.sleep(wait)
            pause *= 2
        raise AssertionError("every way out of the loop is above")

    def lines(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        headers: dict[str, str | None] | None = None,
    ) -> Iterator[str]:
        """Calls an operation that answers line by line, and gives the lines as they come. One that is cut off raises Lost."""
        with self._open(method, path, query, body, headers) as response:
            rest = b""
            try:
                # Split here: the response's own lines end at a cut as at a proper end.
                while came := response.read1(65536):
                    *whole, rest = (rest + came).split(b"\n")
                    for line in whole:
                        yield line.decode().rstrip("\r")
                if response.length:
                    raise http.client.IncompleteRead(rest, response.length)
                if rest:
                    yield rest.decode().rstrip("\r")
            except (OSError, http.client.HTTPException) as error:
                raise Lost(f"the response of {self.server} was cut off: {error}") from error

    def _open(
        self, method: str, path: str, query: dict[str, Any] | None, body: Any, headers: dict[str, str | None] | None
    ) -> http.client.HTTPResponse:
        asked = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        url = self.server + path + (f"?{urllib.parse.urlencode(asked)}" if asked else "")
        request = urllib.request.Request(url, method=method, data=None if body is None else json.dumps(body).encode())
        request.add_header("Authorization", f"Bearer {self._token().strip()}")
        request.add_header("Accept", "application/json, application/problem+json, text/event-stream, application/x-ndjson")
        request.add_header("User-Agent", self._user_agent)
        if body is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in (headers or {}).items():
            if value is not None:
                request.add_header(name, value)
        try:
            return self._opener.open(request, timeout=self._timeout)
        except urllib.error.HTTPError as error:
            raise _refusal(self.server, error) from None
        except (OSError, http.client.HTTPException) as error:
            raise Lost(f"{self.server} does not answer: {error}") from error


def _text(value: Any) -> str:
    """A value behind the question mark."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _refusal(server: str, error: urllib.error.HTTPError) -> Exception:
    with error:
        try:
            document = json.loads(error.read())
        except (OSError, ValueError, http.client.HTTPException):
            document = None
    if not isinstance(document, dict):
        return Unexpected(f"{server} answered {error.code} without a problem document; is this a muster server?")
    after = error.headers.get("Retry-After", "")
    return Problem(error.code, document, float(after) if after.isdigit() else None)


def _is_here(server: str) -> bool:
    """Reports whether an address is on this machine: such addresses never go through a proxy."""
    host = urllib.parse.urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
