"""Verdicts for the reports to draw: each outcome, each size, and what a hostile job may put into one."""

from __future__ import annotations

import math
from collections.abc import Callable

from failuremap.audit.model import Candidate, Cell, Evidence, Finding, Verdict

MEAN_OF_MEANS = Candidate(slug="replica-means-ignore-counts", title="replica means ignore their counts")
DIVIDED_BY_WINDOW = Candidate(
    slug="divided-by-window-twice",
    title="the window divides twice",
    separated_by="a window of another length: capture the short last window of the epoch",
)
DIVIDED_BY_WORLD = Candidate(
    slug="divided-by-world-twice",
    title="the world divides twice",
    separated_by="a run on 3 ranks: here the window and the world are both 4",
)
HOSTILE = "</script><script>alert(1)</script>\"'>&\x1b[31m\u202egnp.\U000e0001\x07"


def grid(ranks: int, micro_batches: int, share: Callable[[int, int], float | None] = lambda r, m: 1.0) -> list[Cell]:
    """Make the cells of a job: counts that vary, coefficients of a mean, the shares given."""
    return [_cell(r, m, share(r, m), ranks * micro_batches) for r in range(ranks) for m in range(micro_batches)]


def _cell(rank: int, micro_batch: int, share: float | None, cell_count: int) -> Cell:
    count = 164 + 62 * ((rank * 3 + micro_batch * 5) % 5)
    return Cell(
        rank=rank,
        micro_batch=micro_batch,
        count=count,
        coefficient=1 / cell_count,
        coefficient_error=2e-8,
        loss_weight=1 / count,
        effective_weight=1 / cell_count / count,
        share=share,
    )


def evidence(ranks: int, micro_batches: int, losses_seen: int | None = None) -> Evidence:
    """Make the evidence of six judged steps."""
    losses = ranks * micro_batches * 6
    return Evidence(
        first_step=1,
        last_step=6,
        step_count=6,
        rank_count=ranks,
        micro_batch_count=micro_batches,
        parameter_count=31,
        parameter_total=31,
        residual=3e-7,
        coefficient_error=2e-8,
        losses_seen=losses if losses_seen is None else losses_seen,
        losses_total=losses,
        loss_sites=["cross_entropy(mean) at train.py:41"],
    )


def finding(sentence: str, **changed: object) -> Finding:
    """Make a finding of counts ignored across ranks, with some of it changed."""
    usual: dict[str, object] = {
        "candidates": [MEAN_OF_MEANS],
        "followed": "mean of the ranks' means",
        "promised": "mean over all tokens",
        "steps": [1, 2, 3, 4, 5, 6],
        "parameters": [f"blocks.{index}.attention.weight" for index in range(20)],
        "parameter_count": 31,
        "ratio": 2.51,
        "total_weight": 1.0,
        "effect": 0.42,
        "repair": "Divide the summed loss by the global count, once: "
        'failuremap.attach(model, rule="weighted_mean"), or reduction="sum" and one division after the all-reduce.',
    }
    return Finding.model_validate({"sentence": sentence, **usual, **changed})


HEAVY_RANK = "A token on rank 1 weighs 2.51 times a token on rank 0."
SHARES = {(0, 0): 0.70, (1, 0): 1.76}


def _wrong(ranks: int, micro_batches: int, share: Callable[[int, int], float | None], **changed: object) -> Verdict:
    usual: dict[str, object] = {
        "outcome": "wrong",
        "sentence": HEAVY_RANK,
        "findings": [finding(HEAVY_RANK)],
        "cells": grid(ranks, micro_batches, share),
        "cells_step": 3,
        "evidence": evidence(ranks, micro_batches),
        "script": "train.py --lr 3e-4 --layers 4",
        "script_exit_code": 0,
    }
    return Verdict.model_validate(usual | changed)


def _varied(rank: int, micro_batch: int) -> float:
    return round(0.4 * 1.35 ** ((rank * 5 + micro_batch * 3) % 8), 3)


RIGHT = Verdict(
    outcome="right",
    sentence="Every token weighs the same: the update is the mean over all tokens.",
    cells=grid(2, 4),
    evidence=evidence(2, 4),
    script="train.py",
    script_exit_code=0,
)
COUNTS_IGNORED = _wrong(2, 1, lambda r, m: SHARES[r, m])
COUNTS_IGNORED_IN_WINDOW = _wrong(
    2, 4, _varied, notes=["The last window of the epoch has 2 micro-batches.", "Gradient clipping did not bite."]
)
TWO_CANDIDATES = _wrong(
    4,
    4,
    lambda r, m: 0.25,
    sentence="Every token weighs 0.25 of its fair share: the update is divided by 4 once too often.",
    findings=[
        finding(
            "Every token weighs 0.25 of its fair share: the update is divided by 4 once too often.",
            candidates=[DIVIDED_BY_WINDOW, DIVIDED_BY_WORLD],
            followed="mean over all tokens, divided by 4 again",
            ratio=1.0,
            total_weight=0.25,
            effect=0.75,
            repair="Divide once. DDP has divided by the world size already when backward returns.",
        )
    ],
)
PART_OF_PARAMETERS = _wrong(
    2,
    2,
    lambda r, m: float(r == 0) * 2,
    sentence="On 4 of 31 parameters, what rank 1 computed is dropped: the update is that of rank 0 alone.",
    findings=[
        finding(
            "On 4 of 31 parameters, what rank 1 computed is dropped: the update is that of rank 0 alone.",
            candidates=[Candidate(slug="parameter-outside-wrapper", title="a parameter outside the DDP wrapper")],
            followed="each rank steps on its own gradient",
            parameters=["head.weight", "head.bias", "norm.weight", "norm.bias"],
            parameter_count=4,
            steps=[3, 4, 5, 6],
            ratio=math.inf,
            total_weight=1.0,
            effect=None,
            term="cross_entropy(mean) at train.py:41",
        )
    ],
)
SEVERAL_FINDINGS = _wrong(
    2,
    4,
    _varied,
    findings=[
        finding(HEAVY_RANK),
        finding(
            "The first micro-batch of each window still holds the last step's gradient.",
            candidates=[],
            parameters=["head.weight"],
            parameter_count=1,
            cells=grid(2, 4, lambda r, m: 2.0 if m == 0 else 1.0),
        ),
        finding("The short last window (step 6) is divided by 4, but it has 2 micro-batches.", steps=[6]),
        finding("The replicas of 2 parameters differ after step 4.", steps=[4, 5, 6], ratio=None, effect=None),
        finding("Weight decay is applied to the summed gradient.", repair=""),
    ],
    notes=[f"Note {index}: the loss at line {index} was seen on rank 0 only." for index in range(5)],
)
CANNOT_TELL = Verdict(
    outcome="cannot tell",
    sentence="Ranks 0 and 1 sent proportional gradients, so their coefficients cannot be told apart.",
    reasons=[
        "parameter 'head.weight', step 3: the gradients of ranks 0 and 1 are proportional to 1 part in 10,000,000.",
        "Usual causes: (a) both ranks read the same batch; (b) one micro-batch was captured.",
        "To settle it, capture two more steps with different batches:  failuremap audit --steps 8 -- train.py",
    ],
    cells=[
        cell.model_copy(update={"coefficient": None, "effective_weight": None, "share": None}) for cell in grid(2, 2)
    ],
    evidence=evidence(2, 2).model_copy(update={"coefficient_error": None, "residual": None, "losses_seen": 0}),
    script="train.py",
)
NOT_MEASURED = Verdict(
    outcome="not measured",
    sentence="No optimizer step was seen.",
    reasons=["train.py ended before its first optimizer.step(). Run it for at least one step, then audit it again."],
    script="train.py --epochs 0",
    script_exit_code=0,
)
SCRIPT_FAILED = Verdict(
    outcome="script failed",
    sentence="The script failed on rank 1 at step 2.",
    reasons=["RuntimeError: The size of tensor a (12) must match the size of tensor b (16) (train.py:88)"],
    script="train.py",
    script_exit_code=1,
)
EIGHT_BY_EIGHT = _wrong(8, 8, _varied)
SIXTY_FOUR_RANKS = _wrong(64, 1, lambda r, m: 3.9 if r == 41 else 1.0 - 2.9 / 63)
MANY_BY_MANY = _wrong(64, 16, _varied)
SUM_PROMISE = _wrong(
    2,
    2,
    lambda r, m: 0.5,
    promise="sum",
    unit="sequence",
    sentence="The update is the mean of the ranks, where their sum was promised: every sequence weighs half.",
    findings=[
        finding(
            "The update is the mean of the ranks, where their sum was promised: every sequence weighs half.",
            candidates=[Candidate(slug="mean-where-sum-was-meant", title="a mean where a sum was meant")],
            followed="mean over ranks",
            promised="sum over all sequences",
            ratio=1.0,
            total_weight=216.0,
            effect=0.5,
        )
    ],
)
_ODD = {(0, 0): math.nan, (0, 1): math.inf, (1, 0): None, (1, 1): -1.2e-9, (2, 0): 0.0, (2, 1): 31415.9}
ODD_NUMBERS = _wrong(
    3,
    2,
    lambda r, m: _ODD[r, m],
    findings=[finding(HEAVY_RANK, ratio=math.inf, effect=math.nan, total_weight=math.nan)],
    evidence=evidence(3, 2).model_copy(update={"residual": math.nan, "coefficient_error": math.inf}),
)
HOSTILE_NAMES = _wrong(
    2,
    1,
    lambda r, m: SHARES[r, m],
    unit=HOSTILE,
    sentence=f"sentence {HOSTILE}",
    script=f"{HOSTILE}.py",
    notes=[f"note {HOSTILE}"],
    reasons=[f"reason {HOSTILE}\nsecond line"],
    findings=[
        finding(
            f"sentence {HOSTILE}",
            candidates=[Candidate(slug=HOSTILE, title=HOSTILE, separated_by=HOSTILE)] * 2,
            followed=HOSTILE,
            promised=HOSTILE,
            parameters=[HOSTILE, "x" * 300],
            parameter_count=2,
            term=HOSTILE,
            repair=HOSTILE,
        ),
        finding(f"also {HOSTILE}", repair=HOSTILE),
    ],
    evidence=evidence(2, 1).model_copy(update={"loss_sites": [HOSTILE]}),
)

SAMPLES: dict[str, Verdict] = {
    name.lower(): value for name, value in list(globals().items()) if isinstance(value, Verdict)
}
