"""What is sent is small and comes in time, or its connection ends; the others don't wait for it."""

from __future__ import annotations

import socket
import time

import pytest

from failuremap.site.app.guards import MAX_BODY_BYTES
from failuremap.site.app.submissions import MAX_SOURCE_BYTES

HEAD = "POST {path} HTTP/1.1\r\nHost: localhost:{port}\r\nOrigin: {url}\r\n{more}\r\n"


@pytest.fixture
def connection(server):
    """A bare connection to the site."""
    with socket.create_connection(("127.0.0.1", server.port), 30) as opened:
        yield opened


def head(server, more: str, path: str = "/sign-in") -> bytes:
    """Return the head of a request with these headers."""
    return HEAD.format(path=path, port=server.port, url=server.url, more=more).encode()


def drip(connection: socket.socket, seconds: float) -> None:
    """Send a byte now and then."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        connection.sendall(b"x")
        time.sleep(0.05)


def rest_of(connection: socket.socket) -> bytes:
    """Return all that comes until the connection ends."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_body_that_says_it_is_too_long_is_refused_unread(server, connection):
    connection.sendall(head(server, f"Content-Length: {MAX_BODY_BYTES + 1}\r\n"))

    assert rest_of(connection).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_does_not_say_how_long_it_is_ends_at_the_limit(server, connection):
    connection.sendall(head(server, "Transfer-Encoding: chunked\r\n"))
    try:
        for _ in range(MAX_BODY_BYTES // 4096 + 16):
            connection.sendall(b"1000\r\n" + b"x" * 4096 + b"\r\n")
        answer = rest_of(connection)
    except (ConnectionResetError, BrokenPipeError):
        answer = b"HTTP/1.1 413 "

    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_body_that_does_not_come_ends_its_connection(server, connection):
    connection.sendall(head(server, "Content-Length: 100\r\n") + b"name=")

    assert rest_of(connection).startswith(b"HTTP/1.1 408 ")


def test_a_body_that_comes_byte_by_byte_has_no_more_time(server, connection):
    connection.sendall(head(server, "Content-Length: 100000\r\n"))

    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        drip(connection, 30)


@pytest.mark.parametrize("sent", [b"", b"G", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_a_header_that_does_not_come_ends_its_connection(connection, sent):
    connection.sendall(sent)

    assert rest_of(connection) == b""


def test_a_header_that_comes_byte_by_byte_has_no_more_time(connection):
    connection.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")

    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        drip(connection, 30)


@pytest.mark.parametrize("origin", ["Origin: {url}", "X-No: origin"])
def test_a_refused_request_keeps_no_connection_open_by_its_body(server, connection, origin):
    sent = head(server, "Content-Length: 100000\r\n").replace(
        f"Origin: {server.url}".encode(), origin.format(url=server.url).encode()
    )
    connection.sendall(sent)

    with pytest.raises((ConnectionResetError, BrokenPipeError)):
        drip(connection, 30)


def test_a_body_with_two_lengths_is_refused_and_what_follows_is_no_request(server, connection):
    both = head(server, "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n")
    connection.sendall(both + b"0\r\n\r\n" + head(server, "Content-Length: 0\r\n"))

    answer = rest_of(connection)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_an_answer_that_nobody_reads_ends_its_connection(server):
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        slow.settimeout(30)
        slow.connect(("127.0.0.1", server.port))
        request = f"GET /all.zip HTTP/1.1\r\nHost: localhost:{server.port}\r\n\r\n".encode()
        size = len(server.visitor().get("/all.zip").content)
        count = 8 * 2**20 // size  # more than sockets hold
        slow.sendall(request * count)
        time.sleep(4)  # the server's time for reading is 1 s

        try:
            received = len(rest_of(slow))
        except ConnectionResetError:
            received = 0
    assert received < count * size


def test_a_body_that_is_no_http_is_no_error_of_ours(server, connection):
    errors = server.log.read_text().count('"event": "error"')
    connection.sendall(head(server, "Transfer-Encoding: chunked\r\n") + b"-5\r\nabcde\r\n")

    assert rest_of(connection).startswith(b"HTTP/1.1 400 ")
    assert server.log.read_text().count('"event": "error"') == errors


def test_many_slow_connections_keep_nobody_else_out(server):
    slow = [socket.create_connection(("127.0.0.1", server.port), 30) for _ in range(100)]
    try:
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\nX-Slow: ")

        assert server.visitor().get("/").status_code == 200
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.parametrize(
    ("size", "status"), [(MAX_SOURCE_BYTES, 303), (MAX_SOURCE_BYTES + 1, 422), (MAX_BODY_BYTES, 413), (0, 422)]
)
def test_a_candidate_has_a_size(server, grace, size, status):
    assert grace.hand_in("#" * size).status_code == status


def test_a_file_is_taken_as_it_is_and_one_that_is_no_text_is_refused(grace):
    form = {"case": "FM-001-1", "source": ""}

    taken = grace.post("/candidates", data=form, files={"file": ("a.py", b"x = 1\r\n")})
    refused = grace.post("/candidates", data=form, files={"file": ("a.py", b"\xff\xfe")})

    number = taken.headers["Location"].rpartition("/")[2]
    assert grace.get(f"/api/member/candidates/{number}").json()["source"] == "x = 1\r\n"
    assert refused.status_code == 422
    assert "The file is not UTF-8; save it as UTF-8 and hand it in again." in refused.text


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=a", b"--a\r\n\r\n"),
        ("multipart/form-data; boundary=a", b"--a\r\nContent-Disposition: form-data\r\n\r\nx\r\n--a--"),
        ("multipart/form-data; boundary=" + "a" * 300, b"--a"),
        ("application/x-www-form-urlencoded", b"%ff=%zz&=&&a"),
        ("application/x-www-form-urlencoded", b"a=1&" * 10_000),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"case": "\\ud800", "source": "\\ud800", "note": "\\ud800"}'),
        ("application/json", b'{"case": NaN, "source": 1e999}'),
        ("", b"\x00" * 1000),
    ],
)
@pytest.mark.parametrize("path", ["/sign-in", "/candidates", "/api/member/candidates", "/passkeys"])
def test_a_body_that_makes_no_sense_is_the_senders_fault(grace, path, kind, body):
    answer = grace.post(path, content=body, headers={"Content-Type": kind})

    assert 400 <= answer.status_code < 500
