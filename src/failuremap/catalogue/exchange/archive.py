"""Files <-> a zip of the same bytes on every day and machine, of which no member can climb out of its folder."""

from __future__ import annotations

import hashlib
import io
import re
import stat
import zipfile
from collections.abc import Iterator, Mapping

from failuremap.errors import RecordError

MAX_MEMBERS = 64
MAX_MEMBER_BYTES = 1024 * 1024
SUMS = "SHA256SUMS"

_FIRST_DAY = (1980, 1, 1, 0, 0, 0)  # the first that a zip can hold
_MODE = stat.S_IFREG | 0o644
_UNIX = 3
_ENCRYPTED = 1


def sums_text(files: Mapping[str, bytes], comment: str) -> str:
    """Returns the text that `sha256sum --check` reads; the comment is its first line."""
    rows = [f"{hashlib.sha256(content).hexdigest()}  {name}" for name, content in sorted(files.items())]
    return "\n".join([f"# {comment}", *rows]) + "\n"


def pack(files: Mapping[str, bytes], folder: str, comment: str) -> bytes:
    """Returns a zip of one folder: stored, sorted, dated 1980-01-01, mode 0644."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", zipfile.ZIP_STORED) as archive:
        for name, content in sorted(files.items()):
            info = zipfile.ZipInfo(f"{folder}/{name}", _FIRST_DAY)
            info.external_attr, info.create_system = _MODE << 16, _UNIX
            archive.writestr(info, content, zipfile.ZIP_STORED)
        archive.comment = comment.encode()
    return memory.getvalue()


def unpack(content: bytes, record: str) -> dict[str, bytes]:
    """Returns the files of a zip made by `pack`: name in its folder -> bytes. Nothing is written.

    Raises:
        RecordError: It is no such zip; the message names the member that has no business there.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            problem = next(_problems(members), "")
            if problem:
                raise RecordError(f"record={record!r}: {problem}. Nothing was unpacked.")
            return {info.filename.partition("/")[2]: archive.read(info) for info in members}
    except (zipfile.BadZipFile, EOFError, NotImplementedError, UnicodeDecodeError, ValueError, OSError) as error:
        if isinstance(error, RecordError):
            raise
        raise RecordError(f"record={record!r} is no whole zip: {error}.") from error


def _problems(members: list[zipfile.ZipInfo]) -> Iterator[str]:
    """Yields what is wrong with the members, before any of them is read."""
    if not 0 < len(members) <= MAX_MEMBERS:
        yield f"{len(members)} members; a bundle has 1 to {MAX_MEMBERS}"
    names = [info.orig_filename.casefold() for info in members]
    for number, info in enumerate(members):
        problem = (
            _problem_of_name(info.orig_filename)
            or _problem_of_file(info)
            or ("is there twice" if names[number] in names[:number] else "")
        )
        if problem:
            yield f"member={info.orig_filename!r} {problem}"
    folders = {info.filename.partition("/")[0] for info in members}
    if len(folders) > 1:
        yield f"members in {len(folders)} folders, {', '.join(map(repr, sorted(folders)))}; a bundle has one"


def _problem_of_name(name: str) -> str:
    if name.startswith(("/", "\\")) or re.match(r"[A-Za-z]:", name):
        return "has an absolute path"
    if ".." in re.split(r"[/\\]", name):
        return "climbs out of its folder"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*/[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        return "is no file of one folder, named by letters, digits and _.-"
    return ""


def _problem_of_file(info: zipfile.ZipInfo) -> str:
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in {0, stat.S_IFREG}:
        return "is a link" if kind == stat.S_IFLNK else "is no regular file"
    if info.flag_bits & _ENCRYPTED or info.compress_type != zipfile.ZIP_STORED:
        return "is compressed or encrypted; the files of a bundle are stored as they are"
    if max(info.file_size, info.compress_size) > MAX_MEMBER_BYTES:
        return f"has {max(info.file_size, info.compress_size)} bytes; a file of a bundle has at most {MAX_MEMBER_BYTES}"
    return ""


def check_sums(files: Mapping[str, bytes], record: str) -> None:
    """Holds files to the SHA256SUMS among them.

    Raises:
        RecordError: A file differs, is missing, or isn't listed; the message names it.
    """
    if SUMS not in files:
        raise RecordError(f"record={record!r}: {SUMS} is missing.")
    said = _read_sums(files[SUMS].decode("utf-8", "replace"), record)
    for name in sorted({*said, *files} - {SUMS}):
        if name not in files:
            raise RecordError(f"record={record!r}: member={name!r} is listed in {SUMS}, but missing.")
        if name not in said:
            raise RecordError(f"record={record!r}: member={name!r} is not listed in {SUMS}.")
        actual = hashlib.sha256(files[name]).hexdigest()
        if actual != said[name]:
            raise RecordError(
                f"record={record!r}: member={name!r} has sha256={actual}, but {SUMS} says {said[name]!r}."
            )


def _read_sums(text: str, record: str) -> dict[str, str]:
    """Reads the lines as `sha256sum --check` does: name -> digest."""
    said: dict[str, str] = {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        row = re.fullmatch(r"([0-9a-f]{64})  (.+)", line)
        if row and row[2] in said:
            raise RecordError(f"record={record!r}: member={row[2]!r} is listed twice in {SUMS}.")
        if row:
            said[row[2]] = row[1]
        elif not line.startswith("#"):
            raise RecordError(
                f"record={record!r}: {SUMS}: line {number} is {line[:80]!r}; expected a SHA-256, two spaces and a name."
            )
    return said
