"""Passkeys: a second way in, without a password. A browser shows it where the site has a name, not a bare address."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any, Literal

from starlette.responses import Response
from starlette.routing import Route

from failuremap.site.app import account, audit_log, invitations, limits
from failuremap.site.app.database import transaction
from failuremap.site.app.responses import data, passkeys_are_offered
from failuremap.site.app.secrets_ import digest_of
from failuremap.site.app.settings import Address
from failuremap.site.app.visit import Visit, endpoint

if TYPE_CHECKING:
    from webauthn.registration.verify_registration_response import VerifiedRegistration

_CHALLENGE_S = 300
NOT_KNOWN = "This passkey is not known here."
Purpose = Literal["register", "sign in"]


def registration_options(visit: Visit) -> Response:
    """Says what a browser should make a passkey for: an invited name, or the member who is signed in."""
    name = _who(visit)
    if name is None:
        return visit.refuse(404, account.NO_INVITATION)
    from webauthn import generate_registration_options, options_to_json
    from webauthn.helpers.structs import (
        AuthenticatorSelectionCriteria,
        ResidentKeyRequirement,
        UserVerificationRequirement,
    )

    options = generate_registration_options(
        rp_id=visit.settings.address.host,
        rp_name="failuremap",
        user_name=name,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
        ),
    )
    _remember(visit, options.challenge, "register")
    return data(json.loads(options_to_json(options)))


def register(visit: Visit) -> Response:
    """Keeps a new passkey; with an invitation, its name is a member from here on."""
    verified = _verified_registration(visit)
    if verified is None:
        return visit.refuse(422, "The passkey could not be checked. Try again.")
    invitation = _asked(visit).get("invitation")
    with transaction(visit.db):
        if invitation is None and visit.session:
            _keep(visit, visit.session.member.id, verified)
            audit_log.write(visit.db, "passkey added", visit.session.member.name, visit.address, visit.now)
            return data({"to": "/account"})
        member = invitations.accept(visit.db, str(invitation), None, visit.now)
        if member is None:
            return visit.refuse(404, account.NO_INVITATION)
        _keep(visit, member, verified)
        return account.begin_session(visit, member, "joined", data({"to": "/account"}))


def sign_in_options(visit: Visit) -> Response:
    """Says what a browser should sign; of whom, only the passkey will tell."""
    from webauthn import generate_authentication_options, options_to_json
    from webauthn.helpers.structs import UserVerificationRequirement

    with transaction(visit.db):
        wait_s = limits.take(visit.db, limits.SIGN_IN_FROM, limits.network_of(visit.address), visit.now)
    if wait_s:
        return account.too_often(visit, wait_s)
    options = generate_authentication_options(
        rp_id=visit.settings.address.host, user_verification=UserVerificationRequirement.REQUIRED
    )
    _remember(visit, options.challenge, "sign in")
    return data(json.loads(options_to_json(options)))


def sign_in(visit: Visit) -> Response:
    """Begins a session for the member whose passkey signed."""
    from webauthn import base64url_to_bytes, verify_authentication_response
    from webauthn.helpers.exceptions import WebAuthnException

    credential = _asked(visit).get("credential")
    row = _passkey(visit.db, credential)
    if row is None or not isinstance(credential, dict):
        return visit.refuse(403, NOT_KNOWN)
    try:
        done = verify_authentication_response(
            credential=credential,
            expected_challenge=base64url_to_bytes(_challenge_in(visit, credential, "sign in")),
            expected_rp_id=visit.settings.address.host,
            expected_origin=str(visit.settings.address),
            credential_public_key=row["public_key"],
            credential_current_sign_count=row["sign_count"],
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, TypeError, KeyError):
        return visit.refuse(403, NOT_KNOWN)
    with transaction(visit.db):
        update = "UPDATE passkeys SET sign_count = ? WHERE id = ? RETURNING member"
        kept = visit.db.execute(update, (done.new_sign_count, row["id"])).fetchone()
        if kept is None:
            return visit.refuse(403, NOT_KNOWN)
        return account.begin_session(visit, kept["member"], "signed in", data({"to": "/account"}))


def _who(visit: Visit) -> str | None:
    """Returns for whom a passkey would be: the name of an invitation, or that of the member who is signed in."""
    invitation = _asked(visit).get("invitation")
    if invitation is not None:
        return invitations.invited(visit.db, str(invitation), visit.now)
    return visit.session.member.name if visit.session else None


def _verified_registration(visit: Visit) -> VerifiedRegistration | None:
    from webauthn import base64url_to_bytes, verify_registration_response
    from webauthn.helpers.exceptions import WebAuthnException

    credential = _asked(visit).get("credential")
    if not isinstance(credential, dict):
        return None
    try:
        return verify_registration_response(
            credential=credential,
            expected_challenge=base64url_to_bytes(_challenge_in(visit, credential, "register")),
            expected_rp_id=visit.settings.address.host,
            expected_origin=str(visit.settings.address),
            require_user_verification=True,
        )
    except (WebAuthnException, ValueError, TypeError, KeyError):
        return None


def _keep(visit: Visit, member: int, verified: VerifiedRegistration) -> None:
    row = (verified.credential_id, member, verified.credential_public_key, verified.sign_count, visit.now)
    visit.db.execute(
        "INSERT INTO passkeys (credential, member, public_key, sign_count, made) VALUES (?, ?, ?, ?, ?)", row
    )


def _passkey(db: sqlite3.Connection, credential: Any) -> sqlite3.Row | None:
    from webauthn import base64url_to_bytes

    try:
        identifier = base64url_to_bytes(credential["rawId"])
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    query = "SELECT id, public_key, sign_count FROM passkeys WHERE credential = ?"
    row: sqlite3.Row | None = db.execute(query, (identifier,)).fetchone()
    return row


def _remember(visit: Visit, challenge: bytes, purpose: Purpose) -> None:
    """Keeps the digest of a challenge until it is answered, once."""
    from webauthn.helpers import bytes_to_base64url

    row = (digest_of(bytes_to_base64url(challenge)), purpose, visit.now + _CHALLENGE_S)
    with transaction(visit.db):
        visit.db.execute("DELETE FROM challenges WHERE expires <= ?", (visit.now,))
        visit.db.execute("INSERT INTO challenges (digest, purpose, expires) VALUES (?, ?, ?)", row)


def _challenge_in(visit: Visit, credential: dict[str, Any], purpose: Purpose) -> str:
    """Returns the challenge that was signed, if it was one of ours for this purpose and is answered the first time.

    Raises:
        ValueError: It was none.
    """
    from webauthn import base64url_to_bytes

    said = json.loads(base64url_to_bytes(credential["response"]["clientDataJSON"]))
    challenge = str(said["challenge"])
    with transaction(visit.db):
        row = (digest_of(challenge), purpose, visit.now)
        query = "DELETE FROM challenges WHERE digest = ? AND purpose = ? AND expires > ? RETURNING digest"
        if visit.db.execute(query, row).fetchone() is None:
            raise ValueError("the challenge is not known, was answered, or has expired")
    return challenge


def _asked(visit: Visit) -> dict[str, Any]:
    try:
        asked = json.loads(visit.body)
    except (ValueError, RecursionError):
        return {}
    return asked if isinstance(asked, dict) else {}


def routes(address: Address) -> list[Route]:
    """Returns the addresses of passkeys, where the site can have any."""
    return ROUTES if passkeys_are_offered(address) else []


ROUTES = [
    Route("/passkeys/registration", endpoint(registration_options), methods=["POST"]),
    Route("/passkeys", endpoint(register), methods=["POST"]),
    Route("/passkeys/challenge", endpoint(sign_in_options), methods=["POST"]),
    Route("/passkeys/sign-in", endpoint(sign_in), methods=["POST"]),
]
