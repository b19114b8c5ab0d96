"""Ways in and out: sign in, accept an invitation, sign out, sign out everywhere."""

from __future__ import annotations

from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from failuremap.errors import InvalidArgument
from failuremap.site.app import audit_log, invitations, limits, members, passwords, sessions, submissions
from failuremap.site.app.database import transaction
from failuremap.site.app.responses import page
from failuremap.site.app.sessions import Session
from failuremap.site.app.visit import Visit, by_method, endpoint, for_members

_HOME = "/account"
NOT_TOGETHER = "This name and this password do not belong together."
NO_INVITATION = "This invitation is not known, was used, or has expired. Ask whoever sent it for another one."


def sign_in_page(visit: Visit) -> Response:
    """Shows the form."""
    return page(visit.site, "sign-in.html", message="", name="")


def sign_in(visit: Visit) -> Response:
    """Begins a session where name and password belong together; an unknown name looks and costs like a known one."""
    name, password = visit.fields.get("name", ""), visit.fields.get("password", "")
    if wait_s := _tried(visit, name):
        return too_often(visit, wait_s)
    stored = members.stored_password(visit.db, name)
    right = passwords.is_password(stored[1] if stored else None, password)
    with transaction(visit.db):
        if right and stored and members.stored_password(visit.db, name) == stored:
            limits.give_back(visit.db, limits.SIGN_IN_AS, members.folded(name))
            return begin_session(visit, stored[0], "signed in")
        member = members.find(visit.db, name)
        audit_log.write(visit.db, "sign-in failed", member.name if member else "", visit.address, visit.now)
    return page(visit.site, "sign-in.html", 403, message=NOT_TOGETHER, name=name[: members.MAX_NAME])


def _tried(visit: Visit, name: str) -> int:
    """Counts a try by its address and by its name; returns how long to wait."""
    with transaction(visit.db):
        here = limits.take(visit.db, limits.SIGN_IN_FROM, limits.network_of(visit.address), visit.now)
        return here or limits.take(visit.db, limits.SIGN_IN_AS, members.folded(name), visit.now)


def too_often(visit: Visit, wait_s: int) -> Response:
    """Says how long to wait."""
    message = f"Tried too often. Try again in {-(-wait_s // 60)} min."
    return visit.refuse(429, message, {"Retry-After": str(wait_s)})


def begin_session(visit: Visit, member: int, event: audit_log.Event, answer: Response | None = None) -> Response:
    """Begins a session of a member, in the place of the one that the browser had. Within a transaction."""
    if visit.session:
        sessions.end(visit.db, visit.session.digest)
    sessions.forget_expired(visit.db, visit.settings, visit.now)
    secret = sessions.begin(visit.db, member, visit.now)
    (name,) = visit.db.execute("SELECT name FROM members WHERE id = ?", (member,)).fetchone()
    audit_log.write(visit.db, event, name, visit.address, visit.now)
    answer = answer or _to(_HOME)
    answer.set_cookie(
        sessions.cookie_name(visit.settings), secret,
        max_age=visit.settings.session_s, path="/", secure=visit.settings.address.is_https, httponly=True,
        samesite="lax",
    )  # fmt: skip
    return answer


def join_page(visit: Visit) -> Response:
    """Shows whom an invitation is for, and how they get in."""
    name = invitations.invited(visit.db, visit.parameter("secret"), visit.now)
    if name is None:
        return visit.refuse(404, NO_INVITATION)
    return page(visit.site, "join.html", name=name, message="")


def join(visit: Visit) -> Response:
    """Uses an invitation: sets the password, begins the first session."""
    secret, password = visit.parameter("secret"), visit.fields.get("password", "")
    with transaction(visit.db):
        wait_s = limits.take(visit.db, limits.JOIN_FROM, limits.network_of(visit.address), visit.now)
    if wait_s:
        return too_often(visit, wait_s)
    name = invitations.invited(visit.db, secret, visit.now)
    if name is None:
        return visit.refuse(404, NO_INVITATION)
    try:
        passwords.check_password(password)
    except InvalidArgument as error:
        return page(visit.site, "join.html", 422, name=name, message=str(error))
    hashed = passwords.hash_password(password)
    with transaction(visit.db):
        member = invitations.accept(visit.db, secret, hashed, visit.now)
        if member is not None:
            return begin_session(visit, member, "joined")
    return visit.refuse(404, NO_INVITATION)


def sign_out(visit: Visit, session: Session) -> Response:
    """Ends this session."""
    with transaction(visit.db):
        sessions.end(visit.db, session.digest)
        audit_log.write(visit.db, "signed out", session.member.name, visit.address, visit.now)
    return _without_cookie(visit)


def sign_out_everywhere(visit: Visit, session: Session) -> Response:
    """Ends all sessions of this member."""
    with transaction(visit.db):
        sessions.end_all(visit.db, session.member.id)
        audit_log.write(visit.db, "signed out everywhere", session.member.name, visit.address, visit.now)
    return _without_cookie(visit)


def home(visit: Visit, session: Session) -> Response:
    """Shows a member what is theirs: the repairs, what they handed in, their sessions."""
    return page(
        visit.site, "account.html",
        member=session.member,
        families=sorted(visit.site.libraries.member.content.families.values(), key=lambda family: family.number),
        candidates=submissions.of_member(visit.db, session.member.id),
        session_count=sessions.count(visit.db, session.member.id, visit.settings, visit.now),
        passkey_count=_passkey_count(visit, session),
    )  # fmt: skip


def _passkey_count(visit: Visit, session: Session) -> int:
    row = visit.db.execute("SELECT count(*) FROM passkeys WHERE member = ?", (session.member.id,)).fetchone()
    return int(row[0])


def access(visit: Visit) -> Response:
    """Shows a visitor what is withheld, what holds the publisher to it, and how to get in."""
    content = visit.site.libraries.open.content
    return page(
        visit.site,
        "access.html",
        families=sorted(content.families.values(), key=lambda family: family.number),
        contracts=content.contracts,
    )


def _to(path: str) -> Response:
    return RedirectResponse(path, 303, {"Cache-Control": "no-store"})


def _without_cookie(visit: Visit) -> Response:
    answer = _to("/")
    answer.delete_cookie(
        sessions.cookie_name(visit.settings), secure=visit.settings.address.is_https, httponly=True, samesite="lax"
    )
    return answer


ROUTES = [
    Route("/access", endpoint(access)),
    Route("/sign-in", by_method(get=endpoint(sign_in_page), post=endpoint(sign_in)), methods=["GET", "POST"]),
    Route("/join/{secret}", by_method(get=endpoint(join_page), post=endpoint(join)), methods=["GET", "POST"]),
    Route("/sign-out", for_members(sign_out), methods=["POST"]),
    Route("/sign-out-everywhere", for_members(sign_out_everywhere), methods=["POST"]),
    Route("/account", for_members(home)),
]
