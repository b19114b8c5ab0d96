"""Settings that would not do what their operator thinks are refused, and say why."""

from __future__ import annotations

import pytest

from failuremap.errors import InvalidArgument
from failuremap.site.app.responses import passkeys_are_offered
from failuremap.site.app.settings import parse_address, parse_networks


@pytest.mark.parametrize(
    ("text", "address", "hosts"),
    [
        ("https://Maps.Example.org", "https://maps.example.org", {"maps.example.org"}),
        ("https://maps.example.org:8443/", "https://maps.example.org:8443", {"maps.example.org:8443"}),
        ("http://localhost:8000", "http://localhost:8000", {"localhost:8000", "127.0.0.1:8000", "[::1]:8000"}),
        ("http://127.0.0.1", "http://127.0.0.1", {"localhost", "127.0.0.1", "[::1]"}),
    ],
)
def test_an_address_is_where_browsers_find_the_site(text, address, hosts):
    parsed = parse_address(text)

    assert str(parsed) == address
    assert parsed.hosts == hosts


@pytest.mark.parametrize("text", ["http://maps.example.org", "http://192.0.2.1:8000", "http://localhost.example.org"])
def test_passwords_never_go_in_the_clear(text):
    with pytest.raises(InvalidArgument, match="passwords and sessions would go unencrypted; expected https://"):
        parse_address(text)


@pytest.mark.parametrize(
    "text", ["", "maps.example.org", "ftp://a", "https://", "https://a/path", "https://u:p@a", "https://a?x=1"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(InvalidArgument, match="expected https://NAME or https://NAME:PORT, without a path"):
        parse_address(text)


def test_a_port_that_is_none_is_refused():
    with pytest.raises(InvalidArgument, match="is no address: Port out of range"):
        parse_address("https://a:99999")


def test_a_proxy_that_is_no_address_is_refused():
    with pytest.raises(InvalidArgument, match=r"--trusted-proxy: 'proxy' .* such as 127\.0\.0\.1 or 10\.0\.0\.0/8"):
        parse_networks(["proxy"])


@pytest.mark.parametrize(
    ("url", "offered"), [("http://localhost", True), ("https://a.example", True), ("http://127.0.0.1", False)]
)
def test_passkeys_are_offered_where_browsers_make_them(url, offered, require_module):
    require_module("webauthn")

    assert passkeys_are_offered(parse_address(url)) is offered
