"""The trace: what one rank's capture wrote down, as an append-only file of framed records.

    file    = magic record*              magic = b"FMTRACE2\\n", the digit is the version of the format
    record  = <u4 json bytes> <u4 payload bytes> <u4 crc32 of both> json payload       (little endian)
    json    = one object with "kind"; payload = float32 numbers, little endian, as the kind says

The kinds and their fields are in docs/trace-format.md. The file is readable without torch; a record that is cut off or
damaged ends the reading, and `Trace.torn` says where. A trace without an "end" record is one whose process did not come
to its end (killed, `os._exit`, disk full).
"""

from __future__ import annotations

import functools
import json
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from failuremap.errors import TraceError

FORMAT = 2
# 1 knows no layouts, and says the same in all else
_READABLE = (b"FMTRACE1\n", b"FMTRACE2\n")
MAGIC = b"FMTRACE%d\n" % FORMAT
_FRAME = struct.Struct("<III")

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its fields and, where the kind has them, its numbers."""

    fields: dict[str, Any]
    payload: Floats

    @property
    def kind(self) -> str:
        """What the record tells of: header, parameter, backward, step, clip, note or end."""
        return str(self.fields["kind"])


class TraceWriter:
    """Appends records to one trace file; every record is on its way to the disk when `write` returns.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "rank00000-1.trace"
        >>> writer = TraceWriter(path)
        >>> writer.write({"kind": "note", "text": "hello"})
        >>> writer.close()
        >>> [record.kind for record in read(path).records()]
        ['note']
    """

    def __init__(self, path: Path) -> None:
        self.byte_count = len(MAGIC)
        # unbuffered: a killed process loses at most the record it was writing
        self._file: BinaryIO = open(path, "wb", buffering=0)  # noqa: SIM115 - lives as long as the job
        try:
            self._file.write(MAGIC)
        except OSError:
            self._file.close()
            raise

    def write(self, fields: dict[str, Any], payload: Floats | None = None) -> None:
        """Appends one record; raises OSError where the disk does."""
        text = json.dumps(fields, separators=(",", ":")).encode()
        numbers = b"" if payload is None else np.ascontiguousarray(payload, dtype="<f4").tobytes()
        crc = zlib.crc32(numbers, zlib.crc32(text))
        frame = _FRAME.pack(len(text), len(numbers), crc) + text + numbers
        written = 0
        while written < len(frame):
            written += self._file.write(frame[written:])
        self.byte_count += len(frame)

    def close(self) -> None:
        """Closes the file; further writes are an error."""
        self._file.close()


@dataclass
class Trace:
    """One rank's trace, opened. Payloads are read when they are asked for, never all at once."""

    path: Path
    index: list[tuple[dict[str, Any], int, int]] = field(repr=False)
    torn: str = ""
    _map: mmap.mmap | None = field(default=None, repr=False)

    def records(self) -> Iterator[Record]:
        """All whole records, in the order in which they were written."""
        for fields, start, size in self.index:
            yield Record(fields, self._numbers(start, size))

    def _numbers(self, start: int, size: int) -> Floats:
        if not size or self._map is None:
            return np.empty(0, dtype=np.float32)
        return np.frombuffer(self._map, dtype="<f4", count=size // 4, offset=start)

    @property
    def header(self) -> dict[str, Any]:
        """The fields of the header record; empty if the file ends before it."""
        return next((fields for fields, _, _ in self.index if fields["kind"] == "header"), {})

    @property
    def end(self) -> dict[str, Any] | None:
        """The fields of the end record; None if the process did not come to its end."""
        return next((fields for fields, _, _ in reversed(self.index) if fields["kind"] == "end"), None)

    @property
    def rank(self) -> int:
        """The rank that wrote the trace."""
        return int(self.header.get("rank", _rank_of(self.path)))


def as_runs(ranks: Sequence[int]) -> list[list[int]]:
    """Writes ranks as runs [first, count, step], so that a record does not grow with their number.

    Example:
        >>> as_runs([0, 1, 2, 3]), as_runs([1, 3, 5, 8]), as_runs([])
        ([[0, 4, 1]], [[1, 3, 2], [8, 1, 1]], [])
    """
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and runs[-1][1] == 1 and rank > runs[-1][0]:
            runs[-1][1:] = [2, rank - runs[-1][0]]
        elif runs and rank == runs[-1][0] + runs[-1][1] * runs[-1][2]:
            runs[-1][1] += 1
        else:
            runs.append([rank, 1, 1])
    return runs


def of_runs(runs: Iterable[Iterable[int]]) -> tuple[int, ...]:
    """Reads what `as_runs` wrote; equal runs give the same tuple.

    Example:
        >>> of_runs([[1, 3, 2], [8, 1, 1]])
        (1, 3, 5, 8)
    """
    return _ranks(tuple(tuple(run) for run in runs))


@functools.cache
def _ranks(runs: tuple[tuple[int, int, int], ...]) -> tuple[int, ...]:
    return tuple(first + at * step for first, count, step in runs for at in range(count))


def _rank_of(path: Path) -> int:
    found = re.match(r"rank(\d+)", path.name)
    return int(found.group(1)) if found else 0


def trace_path(folder: Path, rank: int) -> Path:
    """The file that this process writes for `rank` in `folder`."""
    return folder / f"rank{rank:05d}-{os.getpid()}.trace"


def read(path: Path) -> Trace:
    """Opens one trace file.

    Raises:
        TraceError: The file is no trace, or one of another version of the format.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(len(MAGIC))
        if size < len(MAGIC) and any(magic.startswith(start) for magic in _READABLE):
            return Trace(path, [], "cut off at byte 0")
        if start not in _READABLE:
            raise TraceError(_not_a_trace(path, start))
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    index, torn = _scan(data, size)
    return Trace(path, index, torn, data)


def _not_a_trace(path: Path, start: bytes) -> str:
    found = re.match(rb"FMTRACE(\d+)\n?", start)
    if found:
        version = found.group(1).decode()
        return (
            f"{path}: trace format {version}, but this version of failuremap reads formats 1 to {FORMAT}; "
            "read it with the version that wrote it, or run the audit again."
        )
    return f"{path}: not a trace (starts with {start!r}, expected {MAGIC!r})."


def _scan(data: mmap.mmap, size: int) -> tuple[list[tuple[dict[str, Any], int, int]], str]:
    index: list[tuple[dict[str, Any], int, int]] = []
    at = len(MAGIC)
    while at < size:
        if at + _FRAME.size > size:
            return index, f"cut off at byte {at}"
        json_size, payload_size, crc = _FRAME.unpack_from(data, at)
        body, end = at + _FRAME.size, at + _FRAME.size + json_size + payload_size
        if end > size:
            return index, f"cut off at byte {at}"
        if zlib.crc32(memoryview(data)[body:end]) != crc:
            return index, f"damaged at byte {at}"
        fields = _fields(data[body : body + json_size])
        if fields is None:
            return index, f"damaged at byte {at}"
        index.append((fields, body + json_size, payload_size))
        at = end
    return index, ""


def _fields(text: bytes) -> dict[str, Any] | None:
    """The object of one record; None if it is none, or says of no kind what it is."""
    try:
        fields = json.loads(text)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("kind"), str) else None


def read_folder(folder: Path) -> list[Trace]:
    """Opens all traces of one run, ordered by rank.

    Raises:
        TraceError: There is none, they are of different runs, or two are of the same rank.
    """
    if not folder.is_dir():
        raise TraceError(
            f"trace folder '{folder}' does not exist; give the folder that `failuremap audit --trace DIR` wrote."
        )
    traces = sorted((read(path) for path in folder.glob("*.trace")), key=lambda trace: trace.rank)
    _check_one_run(folder, [trace for trace in traces if trace.header])
    return traces


def _check_one_run(folder: Path, traces: list[Trace]) -> None:
    runs = sorted({str(trace.header.get("run", "")) for trace in traces})
    if len(runs) > 1:
        raise TraceError(
            f"{folder}: traces of {len(runs)} different runs ({', '.join(runs[:3])}); keep one run in one folder."
        )
    for trace in traces:
        if not isinstance(trace.header.get("world_size"), int):
            raise TraceError(
                f"{trace.path}: the header has no world_size, the number of ranks; see docs/trace-format.md."
            )
    sizes = sorted({trace.header["world_size"] for trace in traces})
    if len(sizes) > 1:
        raise TraceError(
            f"{folder}: traces of runs with different numbers of ranks ({sizes}); keep one run in one folder."
        )
    ranks = [trace.rank for trace in traces]
    twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
    if twice:
        raise TraceError(
            f"{folder}: rank {twice[0]} wrote {ranks.count(twice[0])} traces; "
            "two jobs, or one that restarted, ran in one audit."
        )
