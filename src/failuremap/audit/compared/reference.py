"""What a reference run computed, read from the trace folder, and laid into a step in place of what was captured.

The update stays the one of the job. Each contribution is the gradient of the reference's sum of losses over one
micro-batch, so what one unit weighs in it is 1, and the coefficients are what the units weigh in the update.

Legend: K contributions, P parameters, L numbers of all their sketches one after another, R ranks.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from failuremap.audit import trace
from failuremap.audit.fitting.fit import epsilon, tolerance
from failuremap.audit.launch.reference import FAILED, GRADIENTS, NUMBERED
from failuremap.audit.sentences import reference_words
from failuremap.audit.steps.story import Backward, Parameter
from failuremap.audit.steps.windows import Key, Step

Floats = NDArray[np.float64]
Name = tuple[str, int | None]
"""A parameter's name, and the rank whose part of it is meant; None for all of it."""

# a relative residual up to which only rounding could differ says nothing
_NOISE = 0.3


@dataclass(frozen=True)
class Computed:
    """One contribution: the gradient of a sum of losses, and how many units are in the sum."""

    members: frozenset[tuple[int, int]]
    """The backward passes that it stands for, as rank and number."""
    units: float
    gradients: dict[Name, NDArray[np.float32]]
    loss: float = 0.0
    """The sum of losses."""
    job_losses: tuple[float, ...] = ()
    """What the backward passes of the job started at."""


@dataclass
class Reference:
    """All that a reference run left."""

    objective: str = ""
    file: str = ""
    refused: str = ""
    """Why nothing can be compared; '' if something can."""
    windows: dict[tuple[int, int], list[Computed]] = field(default_factory=dict)
    """By the number of the optimizer, and how many steps it had made."""
    dtypes: dict[Name, str] = field(default_factory=dict)
    sizes: dict[Name, int] = field(default_factory=dict)

    @property
    def split(self) -> set[str]:
        """Parameters that the script's own code splits over the ranks."""
        return {name for name, rank in self.dtypes if rank is not None}


@dataclass(frozen=True)
class Compared:
    """A step with the reference's contributions, and what of it was left out."""

    step: Step
    names: frozenset[str]
    """The parameters, by the names that they have in the job."""
    noise: list[str]
    """Those whose gradient is rounding, and hardly more."""
    absent: list[str]
    """Parameters that the job's optimizer finds without a gradient, and that have one here."""
    unused: list[str]
    """Parameters that get an update in the job, and no gradient here."""
    owed: list[Computed]
    """The contributions of the reference, in the order of the step's."""
    own_names: dict[str, str]
    """By the name of a parameter of this step the one that it has in the job: a part of it is one here."""


def read_reference(folder: Path) -> Reference | None:
    """Reads what a reference run left in a folder; None where there was none."""
    path, failed = folder / GRADIENTS, folder / FAILED
    if failed.exists():
        return Reference(refused=reference_words.failed(failed.read_text(errors="replace")))
    if not path.exists():
        return None
    found, parameters = Reference(), dict[int, tuple[Name, int]]()
    opened = trace.read(path)
    for record in opened.records():
        fields = record.fields
        if record.kind == "reference":
            found.objective, found.file = str(fields["function"]), str(fields["file"])
        elif record.kind == "refused":
            found.refused = str(fields["why"])
        elif record.kind == "parameter":
            name = (str(fields["name"]), fields["rank"])
            parameters[fields["id"]] = name, int(fields["rows"])
            found.dtypes[name] = str(fields["dtype"])
            found.sizes[name] = int(np.prod(fields["shape"], dtype=np.int64))
        elif record.kind == "contribution":
            key = int(fields["optimizer"]), int(fields["count"])
            found.windows.setdefault(key, []).append(_computed(fields, record.payload, parameters))
    if not found.refused and opened.end is None:
        found.refused = reference_words.failed("it did not come to its end")
    return found


def _computed(
    fields: dict[str, Any], payload: NDArray[np.float32], parameters: dict[int, tuple[Name, int]]
) -> Computed:
    gradients, at = {}, 0
    for id in fields["parameters"]:
        name, rows = parameters[id]
        gradients[name] = payload[at : at + rows]
        at += rows
    members = frozenset((int(rank), int(number)) for rank, number in fields["members"])
    losses = tuple(float(loss) for loss in fields.get("job_losses", ()))
    return Computed(members, float(fields["units"]), gradients, float(fields["loss"]), losses)


def compared(step: Step, reference: Reference) -> Compared | str | None:
    """The step with the reference's contributions; None if it was not kept, a reason if it can't be compared."""
    found = next(
        (reference.windows[key] for part in step.parts if (key := (part.optimizer, part.count)) in reference.windows),
        None,
    )
    if found is None:
        return None
    owed = [one for one in found if not one.members <= set(step.set_aside)]
    here = {(rank, backward.id) for (rank, _), backward in zip(step.keys, step.backwards, strict=True)}
    of_stages = step.pipelines is not None  # told as one rank's, whose passes have other numbers
    unmet = [] if of_stages else sorted(here - frozenset[tuple[int, int]]().union(*(one.members for one in owed)))
    if step.doubts or unmet:
        return step.doubts[0] if step.doubts else reference_words.not_kept(step.number, *unmet[0])
    differing = [name for name in step.weights_differ_in if name not in reference.split]
    if differing:
        return reference_words.weights_differ(differing)
    names = _names(step, reference)
    if len({parts[0] for parts in names.values()}) < len(names):
        return reference_words.SAME_NAMES
    wrong = next((p.name for p in step.parameters if _rows(p, names[p.name], owed) not in (0, p.rows)), None)
    if wrong is not None:
        return reference_words.other_shape(wrong)
    laid = _laid_out(step, reference, names, owed)
    noise = [p for p in laid.parameters if tolerance(p.dtype, 1) > _NOISE]
    unused = [p for p in laid.parameters if p.name not in _with_gradient(owed) and _has_update(laid, p)]
    left = np.array([p not in noise and p not in unused for p in laid.parameters], dtype=bool)
    own = frozenset(parameter.name for parameter in step.parameters)
    absent = sorted({name for part in step.parts for name in part.absent} - own)
    absent = [name for name in absent if _has_gradient(name, reference, owed)]
    own_names = {reference_words.part(*name): p for p, parts in names.items() for name in parts}
    seen = replace(laid, present_RP=laid.present_RP & left)
    return Compared(seen, own, [p.name for p in noise], absent, [p.name for p in unused], owed, own_names)


def _with_gradient(owed: list[Computed]) -> set[str]:
    return {reference_words.part(*name) for one in owed for name in one.gradients}


def _has_update(step: Step, parameter: Parameter) -> bool:
    p = step.parameters.index(parameter)
    return bool(step.updates_RL[:, int(step.starts[p]) : int(step.starts[p + 1])].any())


def _has_gradient(name: str, reference: Reference, owed: list[Computed]) -> bool:
    """Whether a gradient of the reference is there, and more than rounding."""
    if tolerance(reference.dtypes.get((name, None), "float32"), 1) > _NOISE:
        return False
    return any(bool(one.gradients[name, None].any()) for one in owed if (name, None) in one.gradients)


def _names(step: Step, reference: Reference) -> dict[str, list[Name]]:
    """By parameter what stands for it in the reference: one tensor, or one for each rank."""
    known = {name for name, _ in reference.dtypes}
    found: dict[str, list[Name]] = {}
    for p in step.parameters:
        name = p.name.removesuffix(f" (stage {p.stage})")
        name = name if name in known else NUMBERED.sub("", name)
        found[p.name] = [(name, rank) for rank in step.ranks] if name in reference.split else [(name, None)]
    return found


def _rows(parameter: Parameter, names: list[Name], owed: list[Computed]) -> int:
    """Numbers of the reference's sketch of a parameter; 0 where it has none."""
    sizes = {len(one.gradients[name]) for one in owed for name in names if name in one.gradients}
    return next((size for size in sizes if size != parameter.rows), parameter.rows if sizes else 0)


def _laid_out(step: Step, reference: Reference, names: dict[str, list[Name]], owed: list[Computed]) -> Step:
    parameters, columns, present = [], [], []
    chosen: list[Name] = []
    for p, parameter in enumerate(step.parameters):
        for name in names[parameter.name]:
            dtype = _coarser(parameter.dtype, reference.dtypes.get(name, "float32"))
            parameters.append(replace(parameter, name=reference_words.part(*name), dtype=dtype))
            columns.append(np.arange(step.starts[p], step.starts[p + 1]))
            mine = np.array([name[1] in (None, rank) for rank in step.ranks])
            present.append(step.present_RP[:, p] & mine)
            chosen.append(name)
    starts = np.cumsum([0] + [parameter.rows for parameter in parameters])
    keys, backwards = _keys(step, reference, owed)
    return replace(
        step,
        parameters=parameters,
        starts=starts,
        keys=keys,
        backwards=backwards,
        contributions_KL=np.array([_row(one, chosen, parameters) for one in owed]).reshape(len(owed), int(starts[-1])),
        updates_RL=step.updates_RL[:, np.concatenate(columns)]
        * np.repeat(np.array(present).T, np.diff(starts), axis=1),
        present_RP=np.array(present).T,
        altered_KL=None,
        sharding=None if reference.split else step.sharding,
        weights_differ_in=[name for name in step.weights_differ_in if name not in reference.split],
        doubts=[],
    )


def _row(one: Computed, chosen: list[Name], parameters: list[Parameter]) -> Floats:
    zero = np.zeros(0, dtype=np.float32)
    parts = [one.gradients.get(name, zero) for name in chosen]
    return np.concatenate(
        [part if len(part) else np.zeros(p.rows) for part, p in zip(parts, parameters, strict=True)]
    ).astype(np.float64)


def _keys(step: Step, reference: Reference, owed: list[Computed]) -> tuple[list[Key], list[Backward]]:
    """The contributions by rank and micro-batch, each with one loss: a sum over its units."""
    paths = {(rank, b.id): b.path for (rank, _), b in zip(step.keys, step.backwards, strict=True)}
    keys, backwards = [], []
    counts: Counter[int] = Counter()
    for one in owed:
        rank, number = min(one.members)
        loss = {"function": reference.objective, "reduction": "sum", "count": one.units, "scale": 1.0}
        backward = Backward(number, "backward", [], next((paths[m] for m in sorted(one.members) if m in paths), {}))
        backward.losses = [{**loss, "site": reference.file}]
        keys.append((rank, counts[rank]))
        backwards.append(backward)
        counts[rank] += 1
    return keys, backwards


def _coarser(job: str, reference: str) -> str:
    """The coarser type of the two, with the roundings of the reference."""
    name, _, count = reference.partition(" x ")
    return f"{job} x {count or 1}" if epsilon(job) > epsilon(name) else reference
