"""The recorded runs: what each script gave, kept as data in `recorded/`, one file for each mechanism."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from failuremap.catalogue.mechanism import STAGES, VARIANTS, Stage
from failuremap.catalogue.run import Run
from failuremap.errors import RecordError

FOLDER = Path(__file__).parent / "recorded"

Recordings = Mapping[tuple[Stage, int], "Recording"]


@dataclass(frozen=True)
class Recording:
    """One recorded run of one stage and variant."""

    sha256: str
    """That of the script."""
    exit_code: int
    stdout: str
    stderr: str

    @classmethod
    def of(cls, script: str, run: Run) -> Recording:
        """Makes the recording of a run that came to its own end."""
        assert run.exit_code is not None
        return cls(hashlib.sha256(script.encode()).hexdigest(), run.exit_code, run.stdout, run.stderr)


def read_recordings(slug: str, folder: Path = FOLDER) -> Recordings:
    """Reads the recorded runs of a mechanism, by stage and variant; none where none were made.

    Raises:
        RecordError: The file is not what `write_recordings` writes.
    """
    path = folder / f"{slug}.json"
    if not path.exists():
        return {}
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        if set(stored) != set(map(str, VARIANTS)):
            raise ValueError(f"it has N={list(stored)}")
        return {(stage, n): _recording(stored[str(n)][stage]) for n in VARIANTS for stage in STAGES}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordError(f"recorded={path.name!r} can't be read: {error!r}. {_again(slug)}") from error


def _recording(stored: dict[str, Any]) -> Recording:
    one = Recording(**stored)
    if [type(value) for value in (one.sha256, one.exit_code, one.stdout, one.stderr)] != [str, int, str, str]:
        raise TypeError(f"a field of {list(stored)} is of another type")
    return one


def write_recordings(slug: str, recordings: Recordings, folder: Path = FOLDER) -> None:
    """Writes the recorded runs of a mechanism, all of them, in place of those that were there."""
    stored = {variant: {stage: asdict(recordings[stage, variant]) for stage in STAGES} for variant in VARIANTS}
    folder.mkdir(exist_ok=True)
    written = folder / f".{slug}.tmp"
    written.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    written.replace(folder / f"{slug}.json")


def difference(slug: str, recorded: Recording | None, seen: Recording) -> str:
    """Says what a run gave that its recording doesn't have; "" where they are the same."""
    if recorded is None:
        return f"no run is recorded. {_again(slug)}"
    if recorded.sha256 != seen.sha256:
        return (
            f"another script was recorded: sha256={recorded.sha256[:12]}..., now {seen.sha256[:12]}.... {_again(slug)}"
        )
    if recorded.exit_code != seen.exit_code:
        return f"exit_code={seen.exit_code}; {recorded.exit_code} was recorded"
    if recorded.stdout != seen.stdout:
        return _other_observation(recorded.stdout, seen.stdout)
    return (
        "" if recorded.stderr == seen.stderr else f"stderr={seen.stderr[:80]!r}; {recorded.stderr[:80]!r} was recorded"
    )


def _other_observation(recorded: str, seen: str) -> str:
    before, after = _actual(recorded), _actual(seen)
    for label, actual in after.items():
        if label in before and repr(before[label]) != repr(actual):
            return f"check={label!r} gave {actual}; {before[label]} was recorded"
    return "the script prints another report than was recorded"


def _actual(stdout: str) -> dict[str, Any]:
    try:
        return {seen["check"]: seen["actual"] for seen in json.loads(stdout)["observations"]}
    except (ValueError, KeyError, TypeError):
        return {}


def _again(slug: str) -> str:
    return f"Record it:  failuremap verify {slug} --record"
