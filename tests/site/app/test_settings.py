"""Settings that would not do what their operator thinks are refused, and say why."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from failuremap.cli import main
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
    "text",
    [
        "",
        "maps.example.org",
        "ftp://a",
        "https://",
        "https://a/path",
        "https://u:p@a",
        "https://a?x=1",
        "https://a#x",
        "https://a b",
        "https://*.a",
        "https://bücher.example",
    ],
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


@pytest.mark.parametrize("value", ["nan", "NaN", "inf", "1e300", "0", "-1"])
@pytest.mark.parametrize(
    ("command", "option"),
    [("serve", "--session-days"), ("serve", "--idle-days"), ("serve", "--body-timeout"),
     ("serve", "--header-timeout"), ("invite", "--days")],
)  # fmt: skip
def test_a_time_that_is_none_is_refused(command, option, value):
    names = ["Ada"] if command == "invite" else []
    done = CliRunner().invoke(main, [command, *names, option, value])

    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.output + str(done.exception)
