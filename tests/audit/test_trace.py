"""The trace file: what was written is read; a file that is cut or damaged says where; nothing raises by surprise."""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.traces import header
from failuremap.audit import trace
from failuremap.audit.trace import MAGIC, TraceWriter
from failuremap.errors import TraceError

NUMBERS = np.array([1.5, -2.0, np.inf], dtype=np.float32)


def written(path, *records):
    writer = TraceWriter(path)
    for fields, numbers in records:
        writer.write(fields, numbers)
    writer.close()
    return path


@pytest.fixture
def whole(tmp_path):
    """A small trace of three records, the second with numbers."""
    return written(
        tmp_path / "rank00003-7.trace",
        (header(3, 4), None),
        ({"kind": "note", "text": "hellö"}, NUMBERS),
        ({"kind": "end", "errors": []}, None),
    )


def frames(path):
    """Where each record begins, read from the bytes by the documented rule."""
    data, at, found = path.read_bytes(), len(MAGIC), []
    while at < len(data):
        found.append(at)
        json_size, payload_size, _ = struct.unpack_from("<III", data, at)
        at += 12 + json_size + payload_size
    return found


def test_what_was_written_is_read(whole):
    records = list(trace.read(whole).records())

    assert [record.fields for record in records] == [
        header(3, 4),
        {"kind": "note", "text": "hellö"},
        {"kind": "end", "errors": []},
    ]
    np.testing.assert_array_equal(records[1].payload, NUMBERS)
    assert records[0].payload.shape == (0,)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.text(), st.integers() | st.text() | st.booleans() | st.none()),
            st.lists(st.floats(width=32, allow_nan=False), max_size=9),
        )
    )
)
def test_whatever_was_written_is_read(contents):
    records = [({**fields, "kind": "note"}, np.array(numbers, dtype=np.float32)) for fields, numbers in contents]

    with tempfile.TemporaryDirectory() as folder:
        read = trace.read(written(Path(folder) / "t.trace", *records))

    assert [record.fields for record in read.records()] == [fields for fields, _ in records]
    assert [record.payload.tolist() for record in read.records()] == [numbers.tolist() for _, numbers in records]
    assert read.torn == ""


def test_numbers_of_other_types_are_written_as_float32(tmp_path):
    path = written(tmp_path / "t.trace", ({"kind": "note"}, np.arange(6.0).reshape(2, 3).T))

    assert next(trace.read(path).records()).payload.tolist() == [0, 3, 1, 4, 2, 5]


def test_a_trace_that_was_not_cut_is_whole(whole):
    read = trace.read(whole)

    assert (read.torn, read.rank, read.header["world_size"], read.end) == ("", 3, 4, {"kind": "end", "errors": []})


def test_a_trace_without_its_end_has_none(tmp_path):
    read = trace.read(written(tmp_path / "t.trace", (header(0, 1), None)))

    assert (read.torn, read.end) == ("", None)


def test_a_record_is_on_its_way_to_the_disk_when_it_was_written(tmp_path):
    writer = TraceWriter(tmp_path / "t.trace")
    writer.write({"kind": "note"})

    assert [record.kind for record in trace.read(tmp_path / "t.trace").records()] == ["note"]
    assert writer.byte_count == (tmp_path / "t.trace").stat().st_size
    writer.close()


def test_a_closed_writer_takes_no_more(tmp_path):
    writer = TraceWriter(tmp_path / "t.trace")
    writer.close()

    with pytest.raises(ValueError, match="closed"):
        writer.write({"kind": "note"})


def test_a_cut_anywhere_is_recognised_and_never_raises(whole, tmp_path):
    data, starts = whole.read_bytes(), frames(whole)
    for size in range(len(MAGIC), len(data)):
        cut = tmp_path / "cut.trace"
        cut.write_bytes(data[:size])

        read = trace.read(cut)

        before = max((start for start in starts if start <= size), default=size)
        assert read.torn == ("" if size in starts else f"cut off at byte {before}")
        assert len(list(read.records())) == sum(start < size for start in starts) - (size not in starts)


def test_a_changed_byte_anywhere_is_recognised_and_never_raises(whole, tmp_path):
    data = whole.read_bytes()
    for place in range(len(MAGIC), len(data)):
        damaged = tmp_path / "damaged.trace"
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])

        read = trace.read(damaged)

        assert read.torn.startswith(("damaged at byte ", "cut off at byte "))
        assert len(list(read.records())) < 3


def test_damage_says_where(whole):
    data, second = bytearray(whole.read_bytes()), frames(whole)[1]
    data[second + 14] ^= 1
    whole.write_bytes(data)

    assert trace.read(whole).torn == f"damaged at byte {second}"


def test_the_records_before_the_damage_are_kept(whole):
    whole.write_bytes(whole.read_bytes()[:-1])

    assert [record.kind for record in trace.read(whole).records()] == ["header", "note"]


def test_another_version_says_which_and_what_to_do(whole):
    whole.write_bytes(b"FMTRACE3\n" + whole.read_bytes()[len(MAGIC) :])

    with pytest.raises(TraceError) as raised:
        trace.read(whole)

    assert str(raised.value) == (
        f"{whole}: trace format 3, but this version of failuremap reads formats 1 to 2; "
        "read it with the version that wrote it, or run the audit again."
    )


def test_the_version_before_is_read(whole):
    as_it_was = [record.fields for record in trace.read(whole).records()]
    whole.write_bytes(b"FMTRACE1\n" + whole.read_bytes()[len(MAGIC) :])

    assert [record.fields for record in trace.read(whole).records()] == as_it_was


@pytest.mark.parametrize("content", [b"hello, world", b"\x7fELF\x02\x01\x01\x00\x00\x00", b"\x89PNG\r\n\x1a\n\x00"])
def test_another_kind_of_file_is_no_trace(content, tmp_path):
    path = tmp_path / "t.trace"
    path.write_bytes(content)

    with pytest.raises(TraceError) as raised:
        trace.read(path)

    assert str(raised.value) == f"{path}: not a trace (starts with {content[:9]!r}, expected {MAGIC!r})."


@settings(max_examples=40, deadline=None)
@given(st.binary(min_size=1, max_size=200).filter(lambda garbage: any(garbage[:12])))
def test_garbage_behind_the_magic_is_torn_and_never_raises(garbage):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.trace"
        path.write_bytes(MAGIC + garbage)
        read = trace.read(path)

    assert list(read.records()) == []
    assert read.torn in (f"cut off at byte {len(MAGIC)}", f"damaged at byte {len(MAGIC)}")


@pytest.mark.parametrize("size", range(len(MAGIC)))
def test_a_cut_inside_the_magic_is_a_torn_trace(size, tmp_path):
    path = tmp_path / "rank00001-1.trace"
    path.write_bytes(MAGIC[:size])

    read = trace.read(path)

    assert (read.torn, read.rank, list(read.records())) == ("cut off at byte 0", 1, [])


def framed(text: bytes) -> bytes:
    return struct.pack("<III", len(text), 0, zlib.crc32(text)) + text


@pytest.mark.parametrize("text", [b"not json", b"[1]", b"{}", b'"kind"', b"\xff\xfe"])
def test_a_whole_record_that_is_no_object_with_a_kind_is_damage(text, tmp_path):
    path = tmp_path / "rank00000-1.trace"
    path.write_bytes(MAGIC + framed(text))

    assert trace.read(path).torn == f"damaged at byte {len(MAGIC)}"


def test_a_tail_of_zeros_is_damage(tmp_path):
    """What a crash of the machine leaves of a file that had been made longer."""
    path = tmp_path / "rank00000-1.trace"
    path.write_bytes(MAGIC + b"\0" * 64)

    assert trace.read(path).torn == f"damaged at byte {len(MAGIC)}"


def test_a_full_disk_leaves_no_open_file():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")

    with pytest.raises(OSError, match="No space left"):
        trace.TraceWriter("/dev/full")


# ---- a folder of traces


def folder_of(tmp_path, *headers):
    for process, fields in enumerate(headers):
        written(tmp_path / f"rank{fields['rank']:05d}-{process}.trace", (fields, None))
    return tmp_path


def test_the_traces_of_a_run_come_by_rank(tmp_path):
    folder = folder_of(tmp_path, *(header(rank, 12) for rank in (11, 2, 0)))

    assert [read.rank for read in trace.read_folder(folder)] == [0, 2, 11]


def test_other_files_in_the_folder_are_left_alone(tmp_path):
    (folder_of(tmp_path, header(0, 1)) / "exit-0.json").write_text("{}")

    assert len(trace.read_folder(tmp_path)) == 1


def test_an_empty_folder_holds_no_traces(tmp_path):
    assert trace.read_folder(tmp_path) == []


def test_a_trace_cut_before_its_header_is_known_by_its_name(tmp_path):
    (tmp_path / "rank00005-1.trace").write_bytes(MAGIC + b"\x01\x02")

    (read,) = trace.read_folder(tmp_path)

    assert (read.rank, read.header, read.torn) == (5, {}, f"cut off at byte {len(MAGIC)}")


def test_a_folder_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(TraceError) as raised:
        trace.read_folder(tmp_path / "run1")

    assert str(raised.value) == (
        f"trace folder '{tmp_path / 'run1'}' does not exist; give the folder that `failuremap audit --trace DIR` wrote."
    )


def test_two_runs_in_one_folder_are_an_error(tmp_path):
    folder = folder_of(tmp_path, header(0, 2, run="a"), header(1, 2, run="b"))

    with pytest.raises(TraceError) as raised:
        trace.read_folder(folder)

    assert str(raised.value) == f"{folder}: traces of 2 different runs (a, b); keep one run in one folder."


def test_two_numbers_of_ranks_in_one_folder_are_an_error(tmp_path):
    folder = folder_of(tmp_path, header(0, 2), header(1, 4))

    with pytest.raises(TraceError) as raised:
        trace.read_folder(folder)

    assert str(raised.value) == (
        f"{folder}: traces of runs with different numbers of ranks ([2, 4]); keep one run in one folder."
    )


def test_two_traces_of_one_rank_are_an_error(tmp_path):
    folder = folder_of(tmp_path, header(0, 2), header(1, 2), header(1, 2))

    with pytest.raises(TraceError) as raised:
        trace.read_folder(folder)

    assert str(raised.value) == (f"{folder}: rank 1 wrote 2 traces; two jobs, or one that restarted, ran in one audit.")


def test_one_run_in_one_folder_is_no_error(tmp_path):
    assert len(trace.read_folder(folder_of(tmp_path, header(0, 2), header(1, 2)))) == 2


def test_the_name_of_a_trace_holds_rank_and_process(tmp_path):
    assert trace.trace_path(tmp_path, 3) == tmp_path / f"rank00003-{os.getpid()}.trace"


def test_the_checksum_is_of_json_and_numbers_together(whole):
    data, second = whole.read_bytes(), frames(whole)[1]
    json_size, payload_size, crc = struct.unpack_from("<III", data, second)

    assert crc == zlib.crc32(data[second + 12 : second + 12 + json_size + payload_size])
    assert payload_size == 4 * len(NUMBERS)


@pytest.mark.parametrize("world_size", [{}, {"world_size": "two"}, {"world_size": None}], ids=str)
def test_a_header_without_the_number_of_ranks_is_an_error(world_size, tmp_path):
    path = written(tmp_path / "rank00000-1.trace", ({"kind": "header", "rank": 0, **world_size}, None))

    with pytest.raises(TraceError) as raised:
        trace.read_folder(tmp_path)

    assert str(raised.value) == (
        f"{path}: the header has no world_size, the number of ranks; see docs/trace-format.md."
    )


@pytest.mark.parametrize(
    "ranks", [(), (3,), (0, 1), (0, 2, 4, 6), (0, 1, 4, 5), (1, 3, 5, 8), tuple(range(1024))], ids=len
)
def test_ranks_are_read_as_they_were_written(ranks):
    assert trace.of_runs(trace.as_runs(ranks)) == ranks


def test_ranks_in_a_row_are_one_run_however_many():
    assert trace.as_runs(range(0, 4096, 8)) == [[0, 512, 8]]
