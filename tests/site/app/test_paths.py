"""A path names a page, or nothing: none leads to a file of the machine, or to what a member sees."""

from __future__ import annotations

import socket

import pytest

SECRET = b"the file beside the pages"
PATHS = [
    "/../{file}", "/../../../../../../../etc/passwd", "/..%2f..%2f..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd",
    "/%252e%252e%252fetc%252fpasswd", "//etc/passwd",
    "/assets/../../../../etc/passwd", "/assets/..%5c..%5cetc%5cpasswd",
    "/etc/passwd%00.html", "/member/../account", "/member/..%2f..%2fsite.sqlite3", "/./site.sqlite3", "/site.sqlite3",
    "/file:///etc/passwd", "http://evil.example/", "/C:/windows/win.ini", "/%c0%ae%c0%ae/etc/passwd", "/~root/.bashrc",
]  # fmt: skip


def raw(server, line: bytes) -> bytes:
    """Send a request line as it is, which no client would; return the whole answer."""
    head = b"\r\nHost: localhost:%d\r\nConnection: close\r\n\r\n" % server.port
    with socket.create_connection(("127.0.0.1", server.port), 30) as connection:
        connection.sendall(line + head)
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize("path", PATHS)
def test_no_path_leads_out_of_the_site(server, path):
    (server.folder / "secret.txt").write_bytes(SECRET)
    target = path.replace("{file}", str(server.folder / "secret.txt"))

    answer = raw(server, f"GET {target} HTTP/1.1".encode())

    assert answer.split(b" ", 2)[1] in {b"303", b"308", b"400", b"404", b"421"}
    assert SECRET not in answer
    assert b"root:" not in answer


def test_a_page_is_found_by_the_same_means(server):
    assert raw(server, b"GET / HTTP/1.1").split(b" ", 2)[1] == b"200"


@pytest.mark.parametrize("page", ["/about/", "/api/cases/FM-001-1", "/sign-in", "/health"])
def test_a_line_break_behind_a_path_is_a_part_of_it(server, page):
    assert raw(server, f"GET {page} HTTP/1.1".encode()).split(b" ", 2)[1] == b"200"
    assert raw(server, f"GET {page}%0a HTTP/1.1".encode()).split(b" ", 2)[1] == b"404"


def test_a_redirect_never_leads_to_another_host(server):
    for path in ("//evil.example", "//evil.example/mechanism", "/\\evil.example", "/mechanism"):
        location = server.visitor().get(f"{server.url}{path}").headers.get("Location", "/")

        assert location.startswith("/")
        assert not location.startswith(("//", "/\\"))


@pytest.mark.parametrize("line", [b"GET", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\nHost: x\r\nHost: y"])
def test_what_is_no_request_is_refused_without_an_error(server, line):
    answer = raw(server, line)

    assert answer[9:12] in {b"400", b"421", b""}
    assert server.visitor().get("/health").status_code == 200


def test_a_request_to_change_to_a_websocket_is_answered_as_any_other(server):
    upgrade = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: x"

    assert raw(server, upgrade)[9:12] == b"200"
    assert "WebSocket" not in server.log.read_text()
