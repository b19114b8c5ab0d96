"""Only the site's own pages change something, and only requests for its own host are answered."""

from __future__ import annotations

import pytest
from starlette.routing import Route

from failuremap.site.app import account, api, candidates, documents, passkeys

ROUTES = [*account.ROUTES, *passkeys.ROUTES, *candidates.ROUTES, *api.ROUTES, *documents.ROUTES]
UNSAFE = sorted(
    {route.path for route in ROUTES if isinstance(route, Route) and (route.methods or set()) - {"GET", "HEAD"}}
)
FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "{own}"},
    {"Origin": "{own}.evil.example"},
    {"Origin": "https://localhost"},
    {},
]


def test_every_way_to_change_something_is_known_here():
    assert UNSAFE == [
        "/api/member/candidates", "/candidates", "/join/{secret}", "/passkeys", "/passkeys/challenge",
        "/passkeys/registration", "/passkeys/sign-in", "/sign-in", "/sign-out", "/sign-out-everywhere",
    ]  # fmt: skip


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_request_of_another_site_changes_nothing(server, ada, headers):
    sent = {name: value.replace("{own}", server.url) for name, value in headers.items()}

    statuses = {
        path: ada.post(path.replace("{secret}", "x"), headers={**sent, "X-Raw": "1"}).status_code for path in UNSAFE
    }

    assert statuses == dict.fromkeys(UNSAFE, 403)
    assert ada.get("/account").status_code == 200


@pytest.mark.parametrize("name", ["Origin", "Sec-Fetch-Site"])
def test_a_header_that_is_there_twice_is_not_believed_once(server, name):
    own = {"Origin": server.url, "Sec-Fetch-Site": "same-origin"}[name]
    twice = [("X-Raw", "1"), (name, own), (name, "https://evil.example")]

    assert server.visitor().post("/sign-in", headers=twice).status_code == 403


@pytest.mark.parametrize("headers", [{"Origin": "{own}"}, {"Sec-Fetch-Site": "same-origin"}], ids=str)
def test_a_request_of_its_own_page_does(server, headers):
    member = server.member("Own page")
    sent = {name: value.replace("{own}", server.url) for name, value in headers.items()}

    assert member.post("/sign-out", headers={**sent, "X-Raw": "1"}).status_code == 303
    assert member.get("/account").status_code == 303


@pytest.mark.parametrize("host", ["evil.example", "localhost", "localhost:1", "localhost:{port}.evil.example", ""])
def test_a_request_for_another_host_is_not_answered(server, host):
    answer = server.visitor().get("/", headers={"Host": host.replace("{port}", str(server.port))})

    assert answer.status_code == 421
    assert f"This site is at {server.url}; it answers no requests for another host." in answer.text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "LOCALHOST"])
def test_a_request_for_its_own_host_is_answered(server, host):
    assert server.visitor().get("/", headers={"Host": f"{host}:{server.port}"}).status_code == 200


def test_the_forwarded_host_is_believed_by_nobody(server):
    answer = server.visitor().get("/sign-in", headers={"X-Forwarded-Host": "evil.example"})

    assert answer.status_code == 200
    assert "evil.example" not in answer.text
