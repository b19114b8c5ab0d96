"""What the recorder writes of the job besides passes and steps: the header, each parameter once, and the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from failuremap.audit.capture.sketches.pieces import SUMS, together
from failuremap.audit.capture.sketches.sketch import COORDINATES, RAW_SIZE
from failuremap.audit.capture.watching import Watched
from failuremap.audit.trace import FORMAT

if TYPE_CHECKING:
    from failuremap.audit.capture.recorder import Recorder


def header(recorder: Recorder, world_size: int) -> dict[str, Any]:
    """Returns the fields of the first record: whose trace it is."""
    return {
        "kind": "header", "format": FORMAT, "run": recorder.run_id, "rank": recorder.rank, "world_size": world_size,
        "framework": f"torch {torch.__version__}", "started": time.time(), "unit": recorder.modules.unit(),
        "sketch": {"raw": RAW_SIZE, "coordinates": COORDINATES, "sums": SUMS},
    }  # fmt: skip


def parameter(recorder: Recorder, watched: Watched) -> dict[str, Any]:
    """Returns the fields of the record that introduces a parameter."""
    tensor = watched.tensor()
    return {
        "kind": "parameter", "id": watched.id, "name": recorder.modules.name(tensor) or f"parameter {watched.id}",
        "shape": watched.shape, "dtype": watched.dtype,
        "rows": watched.sketch.row_count, "coordinates": watched.sketch.coordinate_count,
        **({"sparse": True} if watched.sparse else {}), **recorder.stages.told_of(tensor, recorder.modules),
    }  # fmt: skip


def end(recorder: Recorder) -> tuple[dict[str, Any], Any]:
    """Returns the fields and the numbers of the last record: the weights as they are now, and what went wrong."""
    try:
        parameters, payload = _weights(recorder)
    except Exception as error:  # the end is written without them, and says so
        recorder.note_error("finish", error)
        parameters, payload = [], None
    fields = {
        "kind": "end", "parameters": parameters, "errors": recorder.errors,
        "steps": recorder.step_count, "comm_hooks": recorder.comm_hooks,
    }  # fmt: skip
    return fields, payload


def _weights(recorder: Recorder) -> tuple[list[int], Any]:
    # held on to: what is garbage in a cycle may be collected at any allocation below
    held = [(watched, weights) for watched in recorder.watched if (weights := watched.weights()[0]) is not None]
    with torch.no_grad():
        sketches = {w.id: w.read(weights.detach(), "weights") for w, weights in held if w.named}
    return list(sketches), together(list(sketches.values())) if sketches else None
