"""Credentials that no person types: an adapter's minted token, a registry's token, a browser's cookie."""

import base64
import http.client
import json
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

TESTS = Path(__file__).resolve().parent.parent
for folder in (TESTS, TESTS / "fleet", TESTS / "apps"):
    sys.path.append(str(folder))
from shop import Shop  # noqa: E402


def adapter(server, tenant, project, tokens, folder):
    """The token that the adapter of an app is given for the project of a consumer, good for a quarter of an hour."""
    publisher = SimpleNamespace(token=tokens["tenant_admin"], tenant=tenant, project=project)
    shop = Shop(server, publisher, folder)
    entitlement = shop.entitle()
    minted = server.call("POST", f"{shop.path}/operator-tokens", {"entitlement": entitlement["id"]}, token=shop.publisher_token())
    return minted["secret"]


def pull_token(server, tenant, tokens):
    """A registry's token to pull from one repository, as image tools fetch it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    basic = base64.b64encode(f"anybody:{tokens['tenant_admin']}".encode()).decode()
    connection.request("GET", f"/v2/token?service=x&scope=repository:{tenant['slug']}.work/app:pull",
                       headers={"Authorization": f"Basic {basic}"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status == 200, text
    return json.loads(text)["token"]


def session(server, tenant, tokens):
    """A browser's cookie with its CSRF token, of a logged-in tenant administrator."""
    email, password = f"s{uuid.uuid4().hex[:8]}@example.example", uuid.uuid4().hex
    server.call("POST", "/v1/users", {"email": email, "tenant": tenant["id"], "password": password})
    server.call("POST", "/v1/role-bindings", {"user": email, "role": "tenant_admin", "tenant": tenant["id"]},
                token=tokens["tenant_admin"])
    login = {"method": "password", "tenant": tenant["id"], "email": email, "password": password}
    status, headers, text = server.request("POST", "/v1/sessions", login, token="", headers={"Idempotency-Key": uuid.uuid4().hex})
    assert status == 201, text
    return {"Cookie": headers["set-cookie"].split(";")[0], "X-CSRF-Token": json.loads(text)["csrf_token"]}
