"""`python -m failuremap.audit.capture.reference FOLDER FILE FUNCTION`: computes the gradients that a verdict compares.

It writes `reference.gradients` into the trace folder, in the format of a trace: the sketches of each contribution's
gradient, by the same maps as those of the job. What forbids a comparison is a record there, too.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from failuremap.audit.capture.reference import Refused
from failuremap.audit.capture.reference.kept import Contribution, Window, read_windows
from failuremap.audit.capture.reference.objective import Objective, Result, where_raised
from failuremap.audit.capture.reference.rebuild import load, make_model
from failuremap.audit.capture.sketches.pieces import together
from failuremap.audit.capture.sketches.sketch import Sketch
from failuremap.audit.fitting.fit import roundings_of
from failuremap.audit.launch.reference import GRADIENTS
from failuremap.audit.trace import TraceWriter

# contributions on which the size of roundings is measured
_MEASURED = 2


def main(arguments: Sequence[str]) -> int:
    """Computes and writes; 0, whatever came of it."""
    folder, path, function = Path(arguments[0]), Path(arguments[1]), arguments[2]
    writer = TraceWriter(folder / GRADIENTS)
    writer.write({"kind": "reference", "file": path.name, "function": function})
    try:
        _Run(folder, path, function, writer).run()
    except Refused as refused:
        writer.write({"kind": "refused", "why": str(refused)})
    writer.write({"kind": "end"})
    writer.close()
    return 0


class _Run:
    """One reference run."""

    def __init__(self, folder: Path, path: Path, function: str, writer: TraceWriter) -> None:
        self._folder, self._path, self._writer = folder, path, writer
        self._user = _imported(path)
        self._function = getattr(self._user, function)
        self._ids: dict[tuple[str, int | None], int] = {}
        self._sketches: dict[tuple[int, ...], Sketch] = {}

    def run(self) -> None:
        """Compares nothing: writes what each contribution of each window should be."""
        stages = bool(getattr(self._user, "stages", False))
        windows = read_windows(self._folder, getattr(self._user, "shards", {}), stages=stages)
        model = self._guarded(make_model, self._folder, getattr(self._user, "build", None))
        gather = getattr(self._user, "gather", None)
        roundings: dict[str, float] = {}
        for window in windows:
            load(model, window)
            objective = Objective(self._function, self._path, model, window.buffers)
            contributions = self._guarded(window.contributions, gather)
            found = [(contribution, objective(contribution.batch)) for contribution in contributions]
            if not roundings:
                roundings = _checked(objective, found, bool(getattr(self._user, "rows_interact", False)))
            self._write(window, objective, found, roundings)

    def _guarded(self, function: Any, *args: Any) -> Any:
        """Calls what may call the user's own functions."""
        try:
            return function(*args)
        except Refused:
            raise
        except Exception as error:
            raise Refused(f"the reference raised {where_raised(error, self._path)}") from error

    def _write(
        self,
        window: Window,
        objective: Objective,
        found: Sequence[tuple[Contribution, Result]],
        roundings: dict[str, float],
    ) -> None:
        for contribution, result in found:
            ids, sketches = [], []
            for name, gradient in result.gradients.items():
                for rank, chunk in window.chunks(name, gradient).items():
                    dtype = roundings_of(objective.dtype, roundings.get(name, 1.0))
                    ids.append(self._id(name, rank, chunk, dtype))
                    sketches.append(self._sketch(chunk).read(chunk.contiguous()))
            fields = {
                "kind": "contribution", "optimizer": window.optimizer, "count": window.count,
                "members": contribution.members, "units": result.count, "loss": result.loss, "parameters": ids,
                "job_losses": window.losses(contribution.members),
            }  # fmt: skip
            self._writer.write(fields, together(sketches) if sketches else None)

    def _sketch(self, tensor: Tensor) -> Sketch:
        shape = tuple(tensor.shape)
        return self._sketches.setdefault(shape, Sketch(shape))

    def _id(self, name: str, rank: int | None, tensor: Tensor, dtype: str) -> int:
        key = (name, rank)
        if key not in self._ids:
            self._ids[key] = len(self._ids)
            sketch = self._sketch(tensor)
            fields = {"kind": "parameter", "id": self._ids[key], "name": name, "rank": rank, "shape": tensor.shape}
            self._writer.write({**fields, "rows": sketch.row_count, "dtype": dtype})
        return self._ids[key]


def _checked(
    objective: Objective, found: Sequence[tuple[Contribution, Result]], rows_interact: bool
) -> dict[str, float]:
    """How many roundings each gradient holds, from an objective that was held to what it promises."""
    counting = [(contribution.batch, result) for contribution, result in found if result.count > 0]
    if not counting:
        raise Refused("every count that the objective returned is 0")
    objective.check(*counting[0], rows_interact=rows_interact)
    most: dict[str, float] = {}
    for batch, result in counting[:_MEASURED]:
        for name, number in objective.roundings(batch, result).items():
            most[name] = max(most.get(name, 0.0), number)
    return most


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise Refused(f"the reference can't be imported: {where_raised(error, path)}") from error
    return module


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
