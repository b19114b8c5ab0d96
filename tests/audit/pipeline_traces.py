"""Pipelines as their traces tell them, written by hand: one stage a rank, replicas of each, every number known.

Ranks stand as replicas by stages. All stages call their parameters alike.

Legend: D replicas, M micro-batches, S stages, L numbers of a stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from audit.traces import Floats, Records, backward, end, header, loss, parameter, rows, step, write_records
from failuremap.audit import trace
from failuremap.audit.steps.story import Rank, read_rank
from failuremap.audit.steps.windows import Assembler, Step
from failuremap.audit.trace import as_runs

SHAPES = {"w": (16, 8), "b": (8,)}
STARTS = [0, 128, 136]
W, B = slice(0, 128), slice(128, 136)


def mean_of_all(gradients_DMSL: Floats, _: Floats) -> Floats:
    """Every replica of a stage steps on the mean over all replicas and micro-batches."""
    mean_SL = gradients_DMSL.mean(axis=(0, 1))
    return np.repeat(mean_SL[None], len(gradients_DMSL), axis=0)


@dataclass
class PipelineJob:
    """A job; the losses are means, one on the last stage for each micro-batch."""

    counts: Sequence[Sequence[float]] = ((300, 300, 300),)
    """Units by replica and micro-batch."""
    update: Callable[[Floats, Floats], Floats] = mean_of_all
    """From the gradients (D, M, S, L) and the counts to the updates (D, S, L)."""
    stages: int = 2
    steps: int = 3
    orders: dict[int, Sequence[int]] = field(default_factory=dict)
    """By stage: the order in which it goes backward on the micro-batches."""
    weights: Callable[[Floats, int, int], Floats] = lambda weights_SL, *_: weights_SL
    """A change of the first weights of all stages, given replica and stage of who tells them."""
    shown: Callable[[int, dict[str, Any]], Any] = lambda stage, fields: None
    """A change of a record's fields, given the stage."""
    clips: dict[int, list[dict[str, float]]] = field(default_factory=dict)
    """By stage: norm and limit of its clips before each step."""
    told_calls: bool = False
    """Whether the traces hold records of collectives, which `shown` may fill."""
    seen_gradients: bool = True
    """Whether what is sent by hand was seen to be the gradient of what was received."""
    by_hand: bool = False
    """Whether the traces tell of gradients that are sent and received, in place of a schedule's numbers."""

    def write(self, folder: Path) -> Path:
        """Writes one trace a rank."""
        generator = np.random.default_rng(0)
        counts_DM = np.array(self.counts, dtype=float)
        steps_DMSL = generator.normal(size=(self.steps, *counts_DM.shape, self.stages, STARTS[-1])).astype(np.float32)
        drawn_SL = generator.normal(size=(self.stages, STARTS[-1]))
        for replica in range(len(counts_DM)):
            for stage in range(self.stages):
                weights_L = self.weights(drawn_SL.copy(), replica, stage)[stage]
                records = self._records(replica, stage, counts_DM, steps_DMSL, weights_L)
                for fields, _ in records:
                    self.shown(stage, fields)
                write_records(folder, replica * self.stages + stage, records)
        return folder

    def _records(self, replica: int, stage: int, counts_DM: Floats, steps: Floats, weights_L: Floats) -> Records:
        world_size, size = counts_DM.size // len(counts_DM[0]) * self.stages, counts_DM.shape[1]
        told: dict[str, Any] = {} if self.by_hand else {"stage": stage}
        found: Records = [(header(replica * self.stages + stage, world_size), None), (_group(), None)]
        found += [({**parameter(id, name, shape), **told}, None) for id, (name, shape) in enumerate(SHAPES.items())]
        for number, gradients_DMSL in enumerate(steps):
            order = self.orders.get(stage, range(size))
            for at, micro_batch in enumerate(order):
                fields = self._pass(replica, stage, number * size + at, number * size + micro_batch)
                fields["losses"] = [self._loss(counts_DM, replica, micro_batch, number)] * (stage == self.stages - 1)
                fields["kept"] = [0, 1] if at else []
                found.append((fields, gradients_DMSL[replica, micro_batch, stage]))
            if self.told_calls:
                found.append(({"kind": "collectives", "calls": []}, None))
            if self.by_hand and stage > 0:
                found.append(({"kind": "collectives", "calls": self._sends(replica, stage, number, order)}, None))
            update_L = self.update(gradients_DMSL, counts_DM)[replica, stage]
            found += [
                ({**clip, "kind": "clip", "function": "clip_grad_norm_"}, None) for clip in self.clips.get(stage, [])
            ]
            found.append((step(number, [0, 1]), np.concatenate([update_L, weights_L]).astype(np.float32)))
            weights_L = weights_L - 0.1 * update_L
        return [*found, (end([0, 1], len(steps)), weights_L.astype(np.float32))]

    def _pass(self, replica: int, stage: int, id: int, micro_batch: int) -> dict[str, Any]:
        if self.by_hand:
            fields = {**backward(id, [0, 1], []), "unseen": ["Tanh"] * (stage < self.stages - 1)}
            return {**fields, "received": [_print(replica, stage, micro_batch)]} if stage < self.stages - 1 else fields
        size = len(self.counts[0])
        ranks = as_runs(range(replica * self.stages, (replica + 1) * self.stages))
        place = {"index": stage, "micro_batch": micro_batch % size, "round": micro_batch // size, "ranks": ranks}
        return {**backward(id, [0, 1], []), "stage": place}

    def _loss(self, counts_DM: Floats, replica: int, micro_batch: int, number: int) -> dict[str, Any]:
        return loss(counts_DM[replica, micro_batch], 1.0, fingerprint=100.0 * number + 10 * replica + micro_batch + 1)

    def _sends(self, replica: int, stage: int, number: int, order: Sequence[int]) -> list[dict[str, Any]]:
        """After each pass the gradient of its input is sent to the stage before."""
        size = len(order)
        call = {"function": "send", "group": 0, "when": "before", "own": True, "site": "train.py:9", "calls": 1}
        sends = [
            (passes, _print(replica, stage - 1, number * size + b)) for passes, b in enumerate(order, number * size + 1)
        ]
        told = [{**call, "elements": 32, "sent": [sent], "passes": passes} for passes, sent in sends]
        return [{**one, "gradients": one["sent"]} if self.seen_gradients else one for one in told]


def _print(replica: int, stage: int, micro_batch: int) -> float:
    return 1.5 + replica + 10 * stage + 100 * micro_batch


def _group() -> dict[str, Any]:
    return {"kind": "group", "id": 0, "ranks": [[0, 2, 1]]}


def ranks_in(folder: Path) -> list[Rank]:
    """What the traces of a folder tell."""
    return [read_rank(read) for read in trace.read_folder(folder)]


def last_step(folder: Path) -> Step:
    """The last step of the traces in a folder."""
    ranks = ranks_in(folder)
    return list(Assembler(ranks, len(ranks)).steps())[-1]


assert [rows(shape) for shape in SHAPES.values()] == [128, 8]
