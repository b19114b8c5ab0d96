"""Found while the tests were written: what should hold, and does not yet."""

from __future__ import annotations

import json
import os
import struct
import zlib

import numpy as np
import pytest

from audit.traces import HandJob, backward, end, header, loss, parameter, step, write_records
from failuremap.audit import diagnose, trace
from failuremap.audit.trace import MAGIC
from failuremap.errors import TraceError


@pytest.mark.parametrize("size", range(len(MAGIC)))
def test_a_cut_inside_the_magic_is_a_torn_trace(size, tmp_path):
    path = tmp_path / "rank00001-1.trace"
    path.write_bytes(MAGIC[:size])

    read = trace.read(path)

    assert (read.torn, read.rank, list(read.records())) == ("cut off at byte 0", 1, [])


def test_a_rank_whose_trace_is_empty_is_a_reason_and_no_error(tmp_path):
    folder = HandJob([[300], [300]]).write(tmp_path)
    (folder / "rank00001-1.trace").write_bytes(b"")

    assert diagnose(folder).outcome in ("cannot tell", "not measured")


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


def test_a_header_without_the_number_of_ranks_is_a_trace_error(tmp_path):
    (tmp_path / "rank00000-1.trace").write_bytes(MAGIC + framed(json.dumps({"kind": "header", "rank": 0}).encode()))

    with pytest.raises(TraceError, match="world_size"):
        diagnose(tmp_path)


@pytest.mark.parametrize("factor", [2.0, 0.3, -1.0])
@pytest.mark.parametrize("counts", [[[300], [300]], [[300], [100]]])
def test_proportional_gradients_cannot_be_told_apart(counts, factor, tmp_path):
    def proportional(gradients, _):
        gradients[1] = factor * gradients[0]
        return gradients

    verdict = diagnose(HandJob(counts, gradients=proportional).write(tmp_path))

    assert (verdict.outcome, verdict.findings) == ("cannot tell", [])
    assert "too much alike to tell their coefficients apart" in verdict.reasons[0]


@pytest.mark.parametrize("difference", [1e-6, 1e-7])
def test_nearly_proportional_gradients_are_never_called_right(difference, tmp_path):
    def nearly(gradients, _):
        gradients[1] = 2 * gradients[0] + difference * gradients[1]
        return gradients

    assert diagnose(HandJob([[300], [100]], gradients=nearly).write(tmp_path)).outcome != "right"


@pytest.mark.parametrize(
    "records",
    [
        [(backward(0, [0], [loss(3)]), np.ones(4, np.float32))],
        [(step(0, [0]), np.ones(8, np.float32))],
        [
            (parameter(0, "w", (4,)), None),
            (backward(0, [0], [loss(3)]), np.ones(3, np.float32)),
            (step(0, [0]), np.ones(8, np.float32)),
        ],
        [(parameter(0, "w", (4,)), None), ({"kind": "step"}, None)],
        [
            (parameter(0, "w", (4,)), None),
            (backward(0, [0], [{}]), np.ones(4, np.float32)),
            (step(0, [0]), np.ones(8, np.float32)),
        ],
    ],
    ids=["backward before its parameter", "step before its parameter", "too few numbers", "no fields", "empty loss"],
)
def test_records_that_do_not_follow_the_format_are_a_trace_error(records, tmp_path):
    write_records(tmp_path, 0, [(header(0, 1), None), *records, (end([], 1), None)])

    with pytest.raises(TraceError):
        diagnose(tmp_path)


def test_a_rank_that_skips_one_of_two_optimizers_is_a_verdict_and_no_crash(tmp_path):
    size, ones = 128, np.ones
    for rank in range(2):
        second = (step(0, [1], optimizer=1), ones(2 * size, np.float32))
        skipping = (step(1, [0]), ones(size + 64, np.float32))
        write_records(
            tmp_path,
            rank,
            [
                (header(rank, 2), None),
                (parameter(0, "a", (64, 64)), None),
                (parameter(1, "b", (64, 64)), None),
                (backward(0, [0, 1], [loss(3)]), ones(2 * size, np.float32)),
                (step(0, [0]), ones(2 * size, np.float32)),
                (backward(1, [0, 1], [loss(3)]), ones(2 * size, np.float32)),
                second if rank == 0 else skipping,
                (end([], 2), None),
            ],
        )

    assert diagnose(tmp_path).outcome != "right"


@pytest.mark.torch
@pytest.mark.parametrize("shape", [(16, 8), (500, 8), (300, 4, 9)], ids=str)
def test_a_sparse_gradient_without_any_row_has_a_sketch_of_zeros(shape):
    import torch

    from failuremap.audit.capture.sketch import Sketch

    nothing = torch.sparse_coo_tensor(
        torch.zeros(1, 0, dtype=torch.long), torch.zeros(0, *shape[1:]), shape, check_invariants=True
    )

    assert not Sketch(shape)(nothing).any()


def test_an_optimizer_that_joins_later_is_a_verdict_and_no_crash(tmp_path):
    """At the second step one optimizer writes whole sketches of its weights, the other sampled elements."""
    size, ones = 128, np.ones
    for rank in range(2):
        write_records(
            tmp_path,
            rank,
            [
                (header(rank, 2), None),
                (parameter(0, "a", (64, 64)), None),
                (parameter(1, "b", (64, 64)), None),
                (backward(0, [0], [loss(3)]), ones(size, np.float32)),
                (step(0, [0]), ones(2 * size, np.float32)),
                (backward(1, [0, 1], [loss(3)], kept=[]), ones(2 * size, np.float32)),
                (step(0, [1], optimizer=1), ones(2 * size, np.float32)),
                (step(1, [0]), ones(size + 64, np.float32)),
                (end([], 2), None),
            ],
        )

    assert diagnose(tmp_path).findings is not None
