"""A stranger fetches every address of the member build and finds nothing that is withheld."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from urllib.parse import urldefrag, urljoin, urlsplit

import pytest

from catalogue.exchange.leaks import standing_in
from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.splits import split_of
from failuremap.catalogue.exchange.tiers import CANARIES, contract_id
from failuremap.catalogue.records.digest import WITHHELD, value_at
from failuremap.catalogue.records.model import Case
from failuremap.catalogue.shelf import mechanisms
from failuremap.site.app.library import libraries
from served import Server, Visitor

LINK = re.compile(rb"(?:href|src|action)=[\"']([^\"'#]+)|<loc>([^<]+)<|url\(([^)]+)\)")
SHARED_LINE = 40
"""A line of the repair that is shorter may stand in the open scripts as well."""
OTHERS = """
    sitemap.xml feed.atom modified.csv all.zip search.json index.json SHA256SUMS robots.txt .git/config site.sqlite3
    site.sqlite3-wal assets/ case/ mechanism/?tier=member ?tier=member account candidates/1 health api/openapi.json
    api/contracts api/cases api/member/candidates join/ access sign-in cases.jsonl record.schema.json held-back/ %00
""".split()
ESCAPES = {"&lt;": "<", "&gt;": ">", "&#34;": '"', "&quot;": '"', "&#39;": "'", "&amp;": "&"}


def texts_of(value: object) -> Iterator[str]:
    """Yield the texts in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from texts_of(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from texts_of(inner)


def secrets_of(cases: Iterable[Case]) -> set[str]:
    """Return what a stranger must not see: withheld texts and lines that no open record has, salts, canaries."""
    texts, opened, salts = set(), [], set()
    for case in cases:
        document = case.document()
        texts |= {text for path in WITHHELD for text in texts_of(value_at(document, path))}
        salts |= set(document["member_only"]["salts"].values())
        if case.visibility != "sealed":
            opened.append(case.to_open().to_json())
    lines = {line.strip() for text in texts for line in text.splitlines()}
    withheld = {one for one in texts | lines if len(one) >= SHARED_LINE}
    shared = {secret for _, secret in leaks({"": "\n".join(opened).encode()}, withheld)}
    return (withheld - shared) | salts | {CANARIES["member"], CANARIES["sealed"]}


def names_of_the_sealed(slugs: Iterable[str]) -> set[str]:
    """Return slugs and numbers of the mechanisms that are held back."""
    sealed = [entry for slug in slugs if split_of((entry := mechanisms()[slug]).group) == "held-back"]
    return {entry.slug for entry in sealed} | {f"FM-{entry.number:03d}" for entry in sealed}


def unpacked(content: bytes) -> bytes:
    """Return a file with what it holds, where it is a zip."""
    if not content.startswith(b"PK"):
        return content
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return content + b"".join(unpacked(archive.read(name)) for name in archive.namelist())


def readable(content: bytes) -> str:
    """Return the text of a file as it would be read: also what HTML or JSON has escaped."""
    text = content.decode("utf-8", "replace")
    for escaped, sign in ESCAPES.items():
        text = text.replace(escaped, sign)
    bare = re.sub(r"<[^<>\n]*>", "", text)
    return "\n".join([text, bare, text.replace('\\"', '"').replace("\\n", "\n")])


def crawl(visitor: Visitor, known: Iterable[str]) -> dict[str, bytes]:
    """Fetch the start page, all that it leads to, and some known addresses; return what came, by address."""
    waiting, fetched = ["/", *known], {}
    while waiting:
        path = waiting.pop()
        if path in fetched:
            continue
        answer = visitor.get(path)
        head = "\n".join(f"{name}: {value}" for name, value in answer.headers.items())
        fetched[path] = unpacked(answer.content) + head.encode()
        if answer.status_code == 200:
            found = [first or second or third for first, second, third in LINK.findall(answer.content)]
            waiting += [target for one in found if (target := inside(visitor, path, one.decode()))]
        elif "Location" in answer.headers:
            waiting.append(inside(visitor, path, answer.headers["Location"]) or "/")
    return fetched


def inside(visitor: Visitor, path: str, link: str) -> str:
    """Return the path that a link leads to; "" where it leads out of the site."""
    base = str(visitor.base_url).rstrip("/")
    target = urldefrag(urljoin(base + path, link.strip().replace("&amp;", "&")))[0]
    return target.removeprefix(base) if urlsplit(target).netloc == urlsplit(base).netloc else ""


def guesses(slugs: Iterable[str]) -> list[str]:
    """Return addresses that a stranger might try: those of members, of what is sealed, of copies and of errors."""
    named = [
        f"{prefix}{path}"
        for prefix in ("", "/member")
        for slug in slugs
        for number in [f"FM-{mechanisms()[slug].number:03d}"]
        for path in (f"/mechanism/{slug}/", f"/mechanism/{slug}.json", f"/case/{number}-1/", f"/case/{number}-1.json",
                     f"/case/{number}-1.zip", f"/api/cases/{number}-1", f"/api/member/cases/{number}-1",
                     f"/candidates/new?case={number}-1", f"/case/{number}-1/fixed.py")
    ]  # fmt: skip
    return named + [f"{prefix}/{one}" for prefix in ("", "/member") for one in OTHERS]


def named(fetched: dict[str, bytes], names: Iterable[str]) -> set[tuple[str, str]]:
    """Return which name stands at which address; one that the address itself has was told by who asked."""
    told = ((path, name) for path in fetched for name in names if name not in path)
    return {(path, name) for path, name in told if name.encode() in fetched[path]}


def words_of(text: str) -> list[str]:
    """Return the words of a text: what is left of it however it is indented, quoted or broken into lines."""
    return re.findall(r"\w+", text)


def leaks(fetched: dict[str, bytes], secrets: Iterable[str]) -> set[tuple[str, str]]:
    """Return which secret stands at which address; one that the address itself names was told by who asked."""
    known: dict[str, list[str]] = defaultdict(list)
    for secret in secrets:
        known[f" {' '.join(words_of(secret))} "].append(secret)
    addresses: dict[bytes, list[str]] = defaultdict(list)
    for path, content in fetched.items():
        addresses[content].append(path)
    return {
        (path, secret)
        for content, paths in addresses.items()
        for words in standing_in(f" {' '.join(words_of(readable(content)))} ", known)
        for secret in known[words]
        for path in paths
        if secret not in path
    }


def all_addresses(slugs: Iterable[str]) -> list[str]:
    """Return every address of the member build, and the guesses."""
    site = libraries("http://localhost/", only=tuple(slugs))
    built = [f"{prefix}/{path}" for prefix in ("", "/member") for path in site.member.documents]
    return [*built, *guesses(slugs)]


def check(server: Server, slugs: Iterable[str]) -> int:
    """Crawl a site as a stranger and hold what came against all that is withheld; return the number of addresses."""
    slugs = list(slugs)
    secrets = secrets_of(released_cases(slugs))
    fetched = crawl(server.visitor(), all_addresses(slugs))

    assert leaks(fetched, secrets) == set()
    assert named(fetched, names_of_the_sealed(slugs)) == set()
    return len(fetched)


def test_a_stranger_finds_nothing_that_is_withheld(server):
    assert check(server, server.only) > 150


def test_a_member_finds_it(server, ada):
    paths = ["/member/case/FM-001-1/", "/api/member/cases/FM-001-1", "/member/case/FM-001-1.zip"]

    fetched = {path: unpacked(ada.get(path).content) for path in paths}

    found = leaks(fetched, secrets_of(released_cases(["FM-001-1"])))
    assert {path for path, _ in found} == set(paths)


@pytest.mark.slow
def test_a_member_finds_nothing_that_is_sealed(server, ada):
    slugs = [slug for slug in server.only if split_of(mechanisms()[slug].group) == "held-back"]
    secrets = secrets_of(released_cases(server.only)) - secrets_of(released_cases(set(server.only) - set(slugs)))

    fetched = crawl(ada, all_addresses(server.only))

    assert slugs
    assert leaks(fetched, secrets) == set()
    assert named(fetched, names_of_the_sealed(slugs)) == set()


def test_what_is_sealed_is_known_by_its_contract_alone(server):
    (case,) = released_cases(["FM-033-1"])

    assert contract_id(case) in server.visitor().get("/api/contracts").text


def test_a_planted_name_is_found():
    fetched = {"/x": b"see late-division", "/mechanism/late-division/": b"late-division is unknown"}

    assert named(fetched, ["late-division"]) == {("/x", "late-division")}


@pytest.mark.parametrize("where", ["{}", "<p>{}</p>", '{{"a": "{}"}}'])
def test_a_planted_leak_is_found(where):
    lines = {secret for secret in secrets_of(released_cases(["FM-001-1"])) if "\n" not in secret}
    secret = max(lines, key=len)
    escaped = json.dumps(secret)[1:-1] if "a" in where else secret.replace("<", "&lt;").replace('"', "&#34;")

    assert leaks({"/x": where.format(escaped).encode()}, {secret}) == {("/x", secret)}


@pytest.mark.slow
def test_a_stranger_finds_nothing_that_is_withheld_in_the_whole_catalogue(tmp_path):
    whole = Server(tmp_path, only=()).start()
    try:
        assert check(whole, [slug for slug, entry in mechanisms().items() if entry.stages]) > 1000
    finally:
        whole.stop()
