"""What is found at one step, and what was asked: the words in which judging speaks to the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.extent import Extent
from failuremap.audit.model import Cell
from failuremap.audit.steps.story import Rank
from failuremap.audit.trace import Trace
from failuremap.catalogue.signs import Sign

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Promise = Literal["mean", "sum"]


@dataclass
class Fault:
    """One thing that is wrong at one step."""

    kind: str
    """Faults of a kind at several steps are one finding."""
    signs: set[Sign]
    sentence: str
    followed: list[str] = field(default_factory=list)
    promise: Promise | None = None
    """What holds for these parameters, where it is not what the job promises."""
    parameters: list[str] = field(default_factory=list)
    ratio: float | None = None
    total: float | None = None
    term: str | None = None
    effect: float | None = None
    cells: list[Cell] = field(default_factory=list)


@dataclass
class Judged:
    """What one step shows."""

    number: int
    faults: list[Fault] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    """Why something of this step cannot be told."""
    in_part: bool = False
    """Whether a few parameters were read only, and nothing is known of the others."""
    extent: Extent = field(default_factory=lambda: Extent(0, 0))
    """How many of the parameters were read."""
    rank_count: int = 0
    """Ranks that took part in it."""
    missing_ranks: list[int] = field(default_factory=list)
    unexplained: list[str] = field(default_factory=list)
    """Updates that no coefficients give: one such step is enough to call nothing right."""
    unmeasured: list[str] = field(default_factory=list)
    """Why something of this step was not measured."""
    notes: list[str] = field(default_factory=list)
    cells: list[Cell] = field(default_factory=list)
    relative_error: float = 0.0
    residual: float | None = None
    unjudged: set[str] = field(default_factory=set)
    """Parameters whose update no rule explains, or whose gradients were not captured."""
    losses_seen: int = 0
    losses_total: int = 0
    sites: list[str] = field(default_factory=list)
    micro_batch_count: int = 0
    equal_counts: bool = False
    weighed_by_counts: bool = False
    """The coefficients are in proportion to counts that differ."""
    apart: bool = False
    """Whether units have numbers of the script's own, such as advantages, beside what they weigh."""
    factor: float | None = None
    """What the whole update is multiplied by, where that is the script's own affair."""
    momentum: float | None = None
    """What the update of the step before is multiplied by in this one, where that is the script's own affair."""
    main_term: str = ""
    unit_count: float = 0.0
    """Units of the main term."""
    totals: dict[str, float] = field(default_factory=dict)
    """By term, where its units weigh the same: the total weight, as a multiple of what was promised."""
    remaining: Judged | None = None
    """The step as if the ranks that took no part had never been there."""
    norm: float | None = None
    """Length of the update."""
    one_model: bool = False
    """Whether the ranks seem to run parts of one model, by what its own code passes between them."""
    one_loss: bool = False
    """Whether all ranks compute one loss over rows that were gathered without a gradient."""
    stages: bool = False
    """Whether the ranks seem to be stages of a pipeline."""
    experts: set[str] = field(default_factory=set)
    """Parameters that each rank steps on alone, where units go to other ranks and back."""
    own_alone: set[str] = field(default_factory=set)
    """Parameters that each rank steps on alone, as far as the rest's factor, where activations cross the ranks."""
    averages_weights: bool = False
    """Whether as much as all weights was reduced before the backward passes."""
    mixes_weights: bool = False
    """Whether each rank sent as many numbers as its weights have before the backward passes."""
    held_by_some: set[str] = field(default_factory=set)
    """Parameters that not every rank has an update of."""
    plain_sum: bool = False
    """The one contribution is a sum over its units, where a mean was promised."""
    clip_seen: bool = False
    """Whether torch clipped gradients: the norm of the update is that of clips then."""
    weights_equal: bool | None = None
    differing: list[str] = field(default_factory=list)
    """Parameters whose weights were not the same on all ranks when the step began."""
    differ_by_rounding: bool = False
    """Whether these differ by no more than a few roundings."""
    agreeing_ranks: list[list[int]] = field(default_factory=list)
    names: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Asked:
    """What the user wants to know, and what is known of the whole job."""

    unit: str | None
    noun: str
    promise: Promise
    full_window: int


@dataclass(frozen=True)
class Main:
    """The rule of most parameters, the same for every rank that steps."""

    coefficients_K: Floats
    errors_K: Floats
    live_K: Mask
    signs: set[Sign]


@dataclass(frozen=True)
class Story:
    """The whole job, judged step by step."""

    traces: list[Trace]
    ranks: list[Rank]
    world_size: int
    judged: list[Judged]
    noun: str
    promise: Promise
    unjudged: list[Judged] = field(default_factory=list)
    """Steps that were read in part, and of which that part settles nothing; they are not among the judged."""
    open_reasons: list[str] = field(default_factory=list)
    """Why a reference run that was asked for compared nothing."""
    more_notes: list[str] = field(default_factory=list)
    """What a reference run has compared."""

    @cached_property
    def in_full(self) -> list[Judged]:
        """The judged steps of which every parameter was read."""
        return [step for step in self.judged if not step.in_part]

    @cached_property
    def names(self) -> frozenset[str]:
        """All parameters that an optimizer stepped on."""
        return frozenset[str]().union(*(step.names for step in self.judged))
