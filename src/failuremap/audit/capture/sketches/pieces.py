"""What has been read of a tensor, and how its sketch is made of it: for all tensors of a record at once.

    piece     = signed numbers, which the sums are made of, and further numbers, which are taken as they are
    sums[b]   = sum of sign * number over the signed numbers at b, b + SUMS, b + 2 SUMS ...

Reading happens where a gradient passes by and costs an operation or two; the many small ones that are left are done for
a whole record together, when it is written. Where the compiled kernel reads, nothing is left: a sketch is made at once.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SUMS = 64

Numbers = NDArray[np.float32]
Places = NDArray[np.intp]

_ZERO = torch.zeros(1, dtype=torch.float32, device="cpu")


@dataclass(frozen=True, eq=False)
class Plan:
    """How the numbers of a piece become a sketch; compared by identity, one for each kind of piece of a reader."""

    signs: Numbers
    """Of the signed numbers, a multiple of SUMS; zero where a piece is padded. Empty: no sums are made."""
    taken: int
    """How many further numbers there are."""
    at: Places
    """Where the sampled elements stand among the numbers of a piece, the signed ones first; -1: not on this rank."""


class Piece(Protocol):
    """What was read of one tensor."""

    square: Tensor | float | None
    """The sum of all squares, where it was measured along the way."""

    def over(self, scale: Tensor) -> Piece:
        """The piece of the tensor over a number."""


@dataclass(slots=True)
class Waiting:
    """Numbers of a tensor, of which a sketch is still to be made."""

    plan: Plan
    signed: Tensor | None
    taken: Tensor | None
    square: Tensor | float | None = None

    def over(self, scale: Tensor) -> Waiting:
        """The piece of the tensor over a number."""
        signed, taken = (None if part is None else part / scale for part in (self.signed, self.taken))
        return Waiting(self.plan, signed, taken)


@dataclass(slots=True)
class Made:
    """A sketch, or sampled elements alone, with nothing left to do."""

    numbers: bytes
    """float32, as they stand in memory."""
    square: Tensor | float | None = None

    def over(self, scale: Tensor) -> Made:
        """The piece of the tensor over a number."""
        return Made((np.frombuffer(self.numbers, np.float32) / np.float32(scale.item())).tobytes())


def plan(signs: Tensor | None, taken: int, at: Tensor) -> Plan:
    """A plan from tensors on the CPU; the signs are padded."""
    count = 0 if signs is None else len(signs)
    padded = np.zeros(count + -count % SUMS, dtype=np.float32)
    if signs is not None:
        padded[:count] = signs.numpy()
    return Plan(padded, taken, at.numpy().astype(np.intp))


def together(pieces: Sequence[Piece]) -> Numbers:
    """The sketches of pieces, one after another, as a trace holds them."""
    waiting = [piece for piece in pieces if isinstance(piece, Waiting)]
    if len(waiting) == len(pieces):
        return _finished(waiting)
    ends = np.cumsum([len(piece.plan.at) + (SUMS if len(piece.plan.signs) else 0) for piece in waiting])
    finished = iter(np.split(_finished(waiting), ends) if waiting else [])
    parts = (piece.numbers if isinstance(piece, Made) else next(finished).tobytes() for piece in pieces)
    return np.frombuffer(bytearray().join(parts), np.float32)


def _finished(pieces: Sequence[Waiting]) -> Numbers:
    order = _arranged(tuple(piece.plan for piece in pieces))
    signed = _joined([_padded(piece.signed) for piece in pieces if piece.signed is not None])
    taken = _joined([piece.taken.reshape(-1) for piece in pieces if piece.taken is not None])
    products = torch.from_numpy(order.signs) * signed
    sums = torch.zeros(order.sum_count, SUMS, dtype=torch.float64, device="cpu")
    sums.index_add_(0, order.rows, products.view(-1, SUMS).double())
    numbers: Numbers = torch.cat([signed, taken, sums.view(-1).float(), _ZERO])[order.places].numpy()
    return numbers


@dataclass(frozen=True)
class _Order:
    """The plans of a record, laid side by side."""

    signs: Numbers
    rows: Tensor
    """For each SUMS signed numbers the tensor, among those that have sums."""
    sum_count: int
    places: Tensor
    """Where each number of the payload stands among: all signed numbers, all others, the sums, a zero."""


# a step and its backward passes repeat themselves; each is a few bytes for each number of a payload
@functools.lru_cache(maxsize=8)
def _arranged(plans: tuple[Plan, ...]) -> _Order:
    signed_count, taken_count = sum(len(plan.signs) for plan in plans), sum(plan.taken for plan in plans)
    summed = [plan for plan in plans if len(plan.signs)]
    sums_at, zero_at = signed_count + taken_count, signed_count + taken_count + len(summed) * SUMS
    places, signed_at, taken_at = [np.zeros(0, dtype=np.intp)], 0, signed_count
    for plan in plans:
        own = len(plan.signs)
        at = np.where(plan.at < own, signed_at + plan.at, taken_at - own + plan.at)
        places.append(np.where(plan.at < 0, zero_at, at))
        if own:
            places.append(np.arange(sums_at, sums_at + SUMS))
            sums_at += SUMS
        signed_at, taken_at = signed_at + own, taken_at + plan.taken
    rows = np.repeat(np.arange(len(summed)), [len(plan.signs) // SUMS for plan in summed])
    signs = np.concatenate([np.zeros(0, dtype=np.float32), *(plan.signs for plan in summed)])
    return _Order(signs, torch.from_numpy(rows), len(summed), torch.from_numpy(np.concatenate(places)))


def _padded(signed: Tensor) -> Tensor:
    behind = -signed.numel() % SUMS
    return torch.nn.functional.pad(signed.reshape(-1), (0, behind)) if behind else signed.reshape(-1)


def _joined(parts: list[Tensor]) -> Tensor:
    """Numbers one after another, float32; some may lie on another device, where shards are offloaded."""
    if len({part.device for part in parts}) > 1:
        parts = [part.cpu() for part in parts]
    return torch.cat(parts).cpu().float() if parts else _ZERO[:0]
