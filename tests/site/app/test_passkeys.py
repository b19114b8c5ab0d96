"""A passkey is a second way in: made with an invitation or by a member, asked for by a challenge, once."""

from __future__ import annotations

import hashlib
import json
import secrets
import struct
from base64 import urlsafe_b64encode

import cbor2
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

from failuremap.site.app import passkeys
from failuremap.site.app.settings import parse_address

UP, UV, AT = 0x01, 0x04, 0x40


def text(content: bytes) -> str:
    """Return bytes as WebAuthn writes them."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


class Authenticator:
    """A passkey in software, as a browser would ask it."""

    def __init__(self, origin: str, flags: int = UP | UV) -> None:
        self.origin = origin
        self.flags = flags
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.id = secrets.token_bytes(32)
        self.count = 0

    def made(self, challenge: str) -> dict:
        """Answer what a browser is asked for a new passkey."""
        point = self.key.public_key().public_numbers()
        public = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}
        attested = bytes(16) + struct.pack(">H", len(self.id)) + self.id + cbor2.dumps(public)
        said = {"fmt": "none", "attStmt": {}, "authData": self._data(AT) + attested}
        client = self._client("webauthn.create", challenge)
        return self._answer({"clientDataJSON": text(client), "attestationObject": text(cbor2.dumps(said))})

    def signed(self, challenge: str) -> dict:
        """Answer what a browser is asked for a sign-in."""
        self.count += 1
        client, data = self._client("webauthn.get", challenge), self._data()
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        signed = {"clientDataJSON": text(client), "authenticatorData": text(data), "signature": text(signature)}
        return self._answer({**signed, "userHandle": None})

    def _answer(self, response: dict) -> dict:
        return {"id": text(self.id), "rawId": text(self.id), "type": "public-key", "response": response}

    def _data(self, more: int = 0) -> bytes:
        return hashlib.sha256(b"localhost").digest() + bytes([self.flags | more]) + struct.pack(">I", self.count)

    def _client(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()


def test_a_site_without_a_name_has_no_passkeys():
    assert passkeys.routes(parse_address("http://127.0.0.1")) == []
    assert passkeys.routes(parse_address("http://localhost")) == passkeys.ROUTES


def join(server, visitor, name, authenticator):
    """Accept an invitation by a passkey; return the answer."""
    invitation = server.invite(name).rpartition("/")[2]
    asked = {"invitation": invitation}
    options = visitor.post("/passkeys/registration", json=asked).json()
    assert options["user"]["name"] == name
    return visitor.post("/passkeys", json={**asked, "credential": authenticator.made(options["challenge"])})


def challenge(visitor) -> str:
    """Ask for something to sign."""
    return visitor.post("/passkeys/challenge", json={}).json()["challenge"]


def test_an_invitation_is_accepted_by_a_passkey_that_signs_in_later(server):
    key, visitor = Authenticator(server.url), server.visitor()

    assert join(server, visitor, "Keyholder", key).json() == {"to": "/account"}
    assert visitor.get("/account").status_code == 200

    later = server.visitor()
    assert later.post("/passkeys/sign-in", json={"credential": key.signed(challenge(later))}).status_code == 200
    assert "Keyholder" in later.get("/account").text


def test_a_member_without_a_password_does_not_sign_in_with_one(server):
    join(server, server.visitor(), "Keyless", Authenticator(server.url))

    assert [server.visitor().sign_in("Keyless", password).status_code for password in ("", "None")] == [403, 403]


def test_a_member_adds_a_passkey(server):
    member, key = server.member("Adds"), Authenticator(server.url)
    options = member.post("/passkeys/registration", json={}).json()

    assert member.post("/passkeys", json={"credential": key.made(options["challenge"])}).status_code == 200

    later = server.visitor()
    assert later.post("/passkeys/sign-in", json={"credential": key.signed(challenge(later))}).status_code == 200
    assert "1 passkey." in later.get("/account").text


def test_an_answer_is_good_once(server):
    key, visitor = Authenticator(server.url), server.visitor()
    join(server, visitor, "Replayed", key)
    asked = challenge(visitor)
    answer = {"credential": key.signed(asked)}

    statuses = [server.visitor().post("/passkeys/sign-in", json=answer).status_code for _ in range(2)]

    assert statuses == [200, 403]


@pytest.fixture(scope="module")
def owner(server):
    """A passkey that is known here."""
    key = Authenticator(server.url)
    assert join(server, server.visitor(), "Owner", key).status_code == 200
    return key


def forged(owner, asked, **changes):
    """Return what signs in as the owner's passkey would, with something changed."""
    other = Authenticator(changes.get("origin", owner.origin), changes.get("flags", owner.flags))
    other.id, other.key, other.count = owner.id, changes.get("key", owner.key), changes.get("count", owner.count)
    owner.count += 1
    return other.signed(changes.get("challenge", asked))


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": "https://evil.example"},
        {"key": ec.generate_private_key(ec.SECP256R1())},
        {"flags": UP},
        {"challenge": text(b"x" * 64)},
        {"count": -1},
    ],
    ids=["another origin", "another key", "nobody was asked", "another challenge", "a copy of the key"],
)
def test_a_forged_answer_is_refused(server, owner, changes):
    visitor = server.visitor()
    owner_signs = {"credential": owner.signed(challenge(visitor))}
    assert server.visitor().post("/passkeys/sign-in", json=owner_signs).status_code == 200

    answer = visitor.post("/passkeys/sign-in", json={"credential": forged(owner, challenge(visitor), **changes)})

    assert answer.status_code == 403
    assert answer.json()["message"] == "This passkey is not known here."
    assert visitor.get("/account").status_code == 303


def test_an_unknown_passkey_is_answered_as_a_wrong_one(server, owner):
    visitor = server.visitor()
    unknown = Authenticator(server.url).signed(challenge(visitor))
    wrong = forged(owner, challenge(visitor), key=ec.generate_private_key(ec.SECP256R1()))

    answers = [visitor.post("/passkeys/sign-in", json={"credential": one}) for one in (unknown, wrong)]

    assert answers[0].text == answers[1].text
    assert answers[0].status_code == answers[1].status_code == 403


def test_a_used_invitation_makes_no_passkey(server):
    invitation = server.invite("Twice").rpartition("/")[2]
    visitors = [server.visitor() for _ in range(2)]
    options = [one.post("/passkeys/registration", json={"invitation": invitation}).json() for one in visitors]

    statuses = []
    for visitor, option in zip(visitors, options, strict=True):
        made = Authenticator(server.url).made(option["challenge"])
        answer = visitor.post("/passkeys", json={"invitation": invitation, "credential": made})
        statuses.append(answer.status_code)

    assert statuses == [200, 404]


@pytest.mark.parametrize("asked", [{}, {"credential": 1}, {"credential": {"rawId": "x"}}, [], "x"])
@pytest.mark.parametrize("path", ["/passkeys", "/passkeys/sign-in", "/passkeys/registration"])
def test_what_is_no_answer_is_refused(server, path, asked):
    assert server.visitor().post(path, json=asked).status_code in {403, 404, 422}
