"""What the operator decides: by flags of `failuremap serve`, or by FAILUREMAP_* variables."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from failuremap.errors import InvalidArgument

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\]")  # as a browser sends it: no Unicode, no pattern


@dataclass(frozen=True)
class Address:
    """Where browsers find the site.

    Attributes:
        scheme: `http` or `https`.
        host: The name alone, in lower case.
        port: Its port, also where the address doesn't say it.
    """

    scheme: str
    host: str
    port: int

    @property
    def is_https(self) -> bool:
        """True where what is sent can't be read on the way."""
        return self.scheme == "https"

    @property
    def is_loopback(self) -> bool:
        """True where browsers are on this machine."""
        return self.host in _LOOPBACK_NAMES

    @property
    def hosts(self) -> frozenset[str]:
        """What a request's Host header may say."""
        names = _LOOPBACK_NAMES if self.is_loopback else (self.host,)
        ending = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return frozenset(name + ending for name in names)

    def __str__(self) -> str:
        ending = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{self.host}{ending}"


@dataclass(frozen=True)
class Settings:
    """The settings of one site; times are in seconds.

    Attributes:
        database: The file of the members, their sessions and what they handed in.
        address: Where browsers find the site.
        trusted_proxies: From where an X-Forwarded-For header is believed.
        submissions_a_day: How many candidates a member may hand in within 24 hours.
        idle_s: A session ends this long after its last request.
        session_s: A session ends this long after its sign-in.
        header_timeout_s: A request's header must have come within this time.
        body_timeout_s: A request's body must have come within this time.
        key: The judge's secret from which held-back inputs are made; None for one of the judge's own.
    """

    database: Path
    address: Address
    trusted_proxies: tuple[Network, ...] = ()
    submissions_a_day: int = 50
    idle_s: int = 7 * 24 * 3600
    session_s: int = 30 * 24 * 3600
    header_timeout_s: float = 10.0
    body_timeout_s: float = 20.0
    key: bytes | None = None


def parse_address(text: str) -> Address:
    """Reads a public address; one without https is taken on this machine only, as passwords go over it.

    Example:
        >>> str(parse_address("https://maps.example.org"))
        'https://maps.example.org'

    Raises:
        InvalidArgument: It is none, has a path, or would send passwords in the clear.
    """
    try:
        parts = urlsplit(text)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise InvalidArgument(f"--public-url={text!r} is no address: {error}.") from error
    host = f"[{host}]" if ":" in host else host
    more = parts.path not in {"", "/"} or parts.query or parts.fragment or parts.username
    if parts.scheme not in _DEFAULT_PORTS or not _HOST.fullmatch(host) or more:
        raise InvalidArgument(f"--public-url={text!r}: expected https://NAME or https://NAME:PORT, without a path.")
    address = Address(parts.scheme, host, port or _DEFAULT_PORTS[parts.scheme])
    if not address.is_https and not address.is_loopback:
        raise InvalidArgument(
            f"--public-url={text!r}: passwords and sessions would go unencrypted; expected https://, with a proxy in "
            "front that speaks TLS. Plain http is for localhost only."
        )
    return address


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Reads addresses or networks of proxies.

    Example:
        >>> parse_networks(["10.0.0.0/8", "::1"])[0].prefixlen
        8

    Raises:
        InvalidArgument: One is no address.
    """
    try:
        return tuple(ipaddress.ip_network(text) for text in texts)
    except ValueError as error:
        raise InvalidArgument(
            f"--trusted-proxy: {error}; expected an address or a network, such as 127.0.0.1 or 10.0.0.0/8. "
            "Several are several options, or stand in the variable with spaces between them."
        ) from error
