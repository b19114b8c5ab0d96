"""The verdicts of a suite in a file of JSON lines that only grows: what was judged is not judged again.

The first line says what was judged, and by which key. A stop in the middle of a line costs that line alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from failuremap.errors import InvalidArgument
from failuremap.score.candidate import read_candidate
from failuremap.score.fixtures import GENERATOR_VERSION
from failuremap.score.judge import KEY_BYTES
from failuremap.score.limits import Limits
from failuremap.score.stopped import Stopped
from failuremap.score.suite import Sample, Suite
from failuremap.score.verdict import Verdict


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Season(_Line):
    """The first line of a file of results."""

    format: Literal["failuremap-results"] = "failuremap-results"
    version: Literal[1] = 1
    suite: Suite
    generator_version: int = GENERATOR_VERSION
    key_commitment: str
    key: str | None = None
    """In hexadecimal; None where the operator keeps it."""


class Result(_Line):
    """What came of one sample."""

    system: str
    family: str
    case: str
    sample: int
    verdict: Verdict

    @property
    def place(self) -> tuple[str, str, int]:
        """What it is the result of."""
        return self.system, self.case, self.sample


def new_season(suite: Suite, key: bytes | None) -> tuple[Season, bytes]:
    """Returns the first line and the key: the operator's, which stays secret, or a new one, which the line reveals.

    Raises:
        InvalidArgument: The suite is the sealed one, and there is no key.
    """
    if suite == "sealed" and key is None:
        raise InvalidArgument(
            "--suite sealed needs --key FILE, the operator's key of the season:  head -c 32 /dev/urandom > season.key"
        )
    used = key or secrets.token_bytes(KEY_BYTES)
    commitment = hashlib.sha256(used).hexdigest()
    revealed = None if key else used.hex()
    return Season(suite=suite, key_commitment=commitment, key=revealed), used


def read_results(path: Path) -> tuple[Season, list[Result]]:
    """Reads a file of results; of several for one sample the last counts, and a last line that was cut off does not.

    Raises:
        InvalidArgument: It can't be read, or is something else; the message names the line.
    """
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except OSError as error:
        raise InvalidArgument(f"results={str(path)!r} can't be read: {error.strerror}.") from error
    if not lines:
        raise InvalidArgument(f"results={str(path)!r} holds no line; expected what `failuremap score --out` writes.")
    season = _parsed(Season, lines[0], path, 1)
    results = [_parsed(Result, line, path, number) for number, line in enumerate(lines[1:], start=2)]
    return season, list({result.place: result for result in results}.values())


Line = TypeVar("Line", bound=_Line)


def _parsed(kind: type[Line], text: bytes, path: Path, number: int) -> Line:
    try:
        return kind.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidArgument(
            f"results={str(path)!r}, line {number}{where and ', ' + where}: {first['msg']}; expected what "
            "`failuremap score --out` writes."
        ) from error


class ResultsFile:
    """A file of results that is open for more; one process at a time."""

    def __init__(self, descriptor: int, season: Season, key: bytes, results: list[Result]) -> None:
        self.season = season
        self.key = key
        self._results = {result.place: result for result in results}
        self._descriptor = descriptor

    def append(self, result: Result) -> None:
        """Writes one line, which is on the disk when this returns."""
        self._results[result.place] = result
        _write(self._descriptor, result)

    def known(self, sample: Sample) -> bool:
        """True where this very text was judged, and the judge did not fail."""
        try:
            digest = hashlib.sha256(read_candidate(sample.path, Limits())).hexdigest()
        except Stopped:
            digest = ""
        result = self._results.get(sample.place)
        return (
            result is not None and result.verdict.outcome != "judge-error" and result.verdict.candidate_sha256 == digest
        )

    def of(self, samples: Iterable[Sample]) -> list[Result]:
        """Returns what is known of these samples."""
        return [self._results[sample.place] for sample in samples if sample.place in self._results]


@contextmanager
def open_results(path: Path, suite: Suite, key: bytes | None) -> Iterator[ResultsFile]:
    """Opens a file of results, a new one or one to go on with.

    Raises:
        InvalidArgument: It can't be written, is being written, or is of another suite, key or version.
    """
    if path.exists() and not path.is_file() and not path.is_dir():
        raise InvalidArgument(f"--out {str(path)!r} is no regular file; expected one that verdicts can be kept in.")
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise InvalidArgument(f"--out {str(path)!r} can't be written: {error.strerror}.") from error
    try:
        _lock(descriptor, path)
        yield _begun(descriptor, path, suite, key)
    finally:
        os.close(descriptor)


def _begun(descriptor: int, path: Path, suite: Suite, key: bytes | None) -> ResultsFile:
    whole = path.read_bytes().rfind(b"\n") + 1
    if not whole:
        season, used = new_season(suite, key)
        os.ftruncate(descriptor, 0)
        _write(descriptor, season)
        return ResultsFile(descriptor, season, used, [])
    season, results = read_results(path)
    used = key or bytes.fromhex(season.key or "")
    _check_same(path, season, suite, used)
    os.ftruncate(descriptor, whole)
    return ResultsFile(descriptor, season, used, results)


def _check_same(path: Path, season: Season, suite: Suite, key: bytes) -> None:
    advice = "Name another file by --out, or remove this one."
    if season.suite != suite:
        raise InvalidArgument(f"--out {str(path)!r} is of --suite {season.suite}, not {suite}. {advice}")
    if season.generator_version != GENERATOR_VERSION:
        raise InvalidArgument(
            f"--out {str(path)!r} is of generator_version={season.generator_version}, and this is "
            f"{GENERATOR_VERSION}: the fixtures are others. {advice}"
        )
    if hashlib.sha256(key).hexdigest() != season.key_commitment:
        needed = "give its key by --key FILE" if season.key is None else "leave out --key"
        raise InvalidArgument(
            f"--out {str(path)!r} is of another key, key_commitment={season.key_commitment[:16]}...; {needed}. {advice}"
        )


def _lock(descriptor: int, path: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InvalidArgument(
            f"--out {str(path)!r} is being written by another run; wait for it, or name another file."
        ) from error


def _write(descriptor: int, line: BaseModel) -> None:
    content = json.dumps(line.model_dump(mode="json"), ensure_ascii=False).encode() + b"\n"
    while content:
        content = content[os.write(descriptor, content) :]
    os.fsync(descriptor)
