"""Finds, in the graph of a loss, the tensor that holds one number for each unit, as the script averages it.

    loss = sum_i m_i f_i / n      f_i = a_i * exp(log p_i - old_i), say: any function of the unit's log-probability

From where backward starts, the way leads through sums, means, masks and what is the same for all units. It ends at f:
the gradient there is m_i / n, what a unit weighs apart from the script's own number for it, such as an advantage. From
f on every number must belong to a unit: only functions of one element may lie between f and the log-probabilities, and
sums along the rows of a table. Which operands are masks is read from their values; what saved them through hooks
(checkpointing, offloading) is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

_SHAPES = frozenset(
    """Alias Clone Copy _DDPSink Identity Narrow Permute Reshape ReshapeAlias Select Slice Squeeze T ToCopy Transpose
    UnsafeView Unsqueeze View""".split()
)
_PICKS = frozenset("Index IndexSelect MaskedSelect".split())
# what puts a constant where a mask says so, and what its mask is called
_MASKS = {"MaskedFill": "mask", "MaskedScatter": "mask", "Where": "condition"}
_LINEAR = frozenset("Add Neg Rsub Sub".split())
_REDUCTIONS = frozenset("Mean Sum".split())
_LAID_OUT = frozenset("Cat Expand Split SplitWithSizes Stack Unbind".split())
_BY_ELEMENT = frozenset("Abs Clamp ClampMax ClampMin Div Exp Log Maximum Minimum Mul Pow Relu Sigmoid Sqrt".split())
_FOLLOWED = _SHAPES | _PICKS | _LINEAR | _LAID_OUT | _BY_ELEMENT | {*_MASKS, "Gather"}
_NODE_LIMIT = 2_000
# DDP passes all results of a forward through one node, each as it is
SINK = "_DDPSink"


E = TypeVar("E", bound=tuple[Any, int])


class Way(NamedTuple):
    """A tensor of the graph: an output of the node that made it."""

    node: Any
    output: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.node._input_metadata[self.output].shape)

    @property
    def sources(self) -> list[Way]:
        """The tensors that it was made of and through which the gradient goes on."""
        edges = self.node.next_functions
        if name_of(self.node) == SINK:
            edges = edges[self.output : self.output + 1]
        return [Way(*edge) for edge in edges if edge[0] is not None]


@dataclass
class Units:
    """A tensor with one number for each unit."""

    at: Way
    path: str
    """The operations between it and where backward starts, sums left out: terms of a loss are told apart by it."""
    masked: bool
    """Whether a mask was met on the way to it."""
    ends: set[Any] = field(default_factory=set)
    """Nodes of the log-probabilities that its numbers are made of."""
    masks: list[Tensor] = field(default_factory=list)
    """Masks behind it, true where a unit stays."""
    mask_unread: bool = False
    """Whether there is one behind it that says nothing of its units one by one."""
    numbers: list[Tensor] = field(default_factory=list)
    """What its units are multiplied by behind it, which may hold a mask."""
    own_numbers: bool = False
    """Whether something weighs its units one by one: numbers of the script's, or a function that is not linear."""
    unclear: bool = False
    """Whether something that its numbers were multiplied by cannot be read."""
    combined: bool = False
    """Whether its numbers are made of several tensors each."""
    of_rows: str = ""
    """'sequence' where each number is that of a row of log-probabilities, 'example' where it is that of several."""


def name_of(node: Any) -> str:
    """What a node is called: 'Mul' for MulBackward0."""
    return str(node.name()).rstrip("0123456789").removeprefix("torch::autograd::").removesuffix("Backward")


def find(roots: Iterable[Tensor], sizes: dict[Any, int], is_seen: Callable[[Any], bool]) -> list[Units] | None:
    """The tensors of units that a loss is made of; None where some part of it is understood in no such way.

    Args:
        roots: Where backward starts.
        sizes: How many log-probabilities each of their nodes gives.
        is_seen: Says of a node whether a watched loss function made it.
    """
    starts = [Way(root.grad_fn, root.output_nr) for root in roots if root.grad_fn is not None]
    rows = max(sum(sizes.values()), _scattered(starts, sizes))
    found: dict[Way, Units] = {}
    stack = [(start, "", False) for start in starts]
    for _ in range(_NODE_LIMIT):
        if not stack:
            break
        way, path, masked = stack.pop()
        if is_seen(way.node):
            continue
        name, sources = name_of(way.node), way.sources
        if len(sources) > 1 and _adds_scalars(way, name, sources):
            stack += [(source, path, masked) for source in not_times_zero(sources, name)]
            continue
        passed = None if way.node in sizes or len(sources) != 1 else _passes(way, name, sources[0])
        if passed is None or math.prod(sources[0].shape) > rows:
            found.setdefault(way, Units(way, path, masked))
        else:
            stack.append((sources[0], path if name in _LINEAR else f"{path}{name} ", masked or passed))
    units = list(found.values())
    others = set(found)
    if stack or not all(_Behind(unit, sizes, rows, others - {unit.at}).is_understood() for unit in units):
        return None
    return units


def _scattered(starts: list[Way], ends: Collection[Any]) -> int:
    """The size of the table into which log-probabilities are put at the places of a mask; 0 where they are not."""
    largest, stack, visited = 0, list(starts), set[Way]()
    while stack and len(visited) < _NODE_LIMIT:
        way = stack.pop()
        if way not in visited and way.node not in ends:
            visited.add(way)
            largest = max(largest, math.prod(way.shape) if name_of(way.node) == "MaskedScatter" else 0)
            stack += way.sources
    return largest


def _adds_scalars(way: Way, name: str, sources: list[Way]) -> bool:
    one = [math.prod(source.shape) == 1 for source in sources]
    return name in ("Add", "Sub", "Stack", "Cat") and all(one) and (name in ("Stack", "Cat") or not way.shape)


def _passes(way: Way, name: str, source: Way) -> bool | None:
    """None where the way ends; else whether a mask lies here."""
    if name in _SHAPES or name in _REDUCTIONS or (name in _LINEAR and way.shape == source.shape):
        return False
    if name == "Expand" and not source.shape:
        return False
    if name in _PICKS or name in _MASKS:
        return True
    operand = operand_of(way.node, name) if name in ("Mul", "Div") else None
    if operand is None:
        return None
    if not operand.dim() or (operand.numel() == 1 and not source.shape):
        return False
    masks = name == "Mul" and way.shape == source.shape and operand.numel() == math.prod(way.shape)
    return True if masks and is_mask(operand) else None


def operand_of(node: Any, name: str) -> Tensor | None:
    """The constant that a product or a quotient was made with; None where there is none, or it cannot be read."""
    constant_first = node.next_functions[0][0] is None
    if name == "Div" and constant_first:
        return None
    return held(node, "self" if constant_first else "other")


def not_times_zero(sources: Sequence[E], name: str) -> Sequence[E]:
    """What a node adds up, without a term times 0 beside others, by which all parameters have a gradient under DDP."""
    if name not in ("Add", "Sub", "Stack", "Cat"):
        return sources
    return [source for source in sources if not _is_times_zero(source[0])] or sources


def multiplied(node: Any, name: str, times: float | None) -> float | None:
    """The factor before a node times the number that it multiplies by, if that stands in the script; None: learned."""
    if name not in ("Mul", "Div") or math.prod(Way(node, 0).shape) != 1:
        return times
    if sum(source is not None for source, _ in node.next_functions) > 1:
        return None
    factor = operand_of(node, name) if name == "Mul" else None
    literal = factor is not None and not factor.dim() and factor.dtype in (torch.float64, torch.int64)
    return times if times is None or factor is None or not literal else times * float(factor)


def _is_times_zero(node: Any) -> bool:
    factor = operand_of(node, "Mul") if node is not None and name_of(node) == "Mul" else None
    return factor is not None and not factor.dim() and bool(factor == 0)


def held(node: Any, what: str) -> Tensor | None:
    """What a node saved, if it is kept as it is; older versions of torch do not say."""
    raw = getattr(node, f"_raw_saved_{what}", None)
    if raw is None or getattr(raw, "unpack_hook", raw) is not None:
        return None
    try:
        saved = getattr(node, f"_saved_{what}")
    except RuntimeError:  # changed in place since, or freed
        return None
    return saved if type(saved) in (Tensor, torch.nn.Parameter) else None


def is_mask(operand: Tensor) -> bool:
    """Whether there is nothing but zeros and ones in it."""
    return operand.dtype == torch.bool or bool(((operand == 0) | (operand == 1)).all())


class _Behind:
    """Follows the graph from a tensor of units to its log-probabilities."""

    def __init__(self, units: Units, ends: Collection[Any], rows: int, others: set[Way]) -> None:
        self.units, self.ends, self.rows, self.others = units, ends, rows, others
        self.count = math.prod(units.at.shape)
        self.scores = False

    def is_understood(self) -> bool:
        """Whether all that the numbers are made of is; fills in the rest of what is known of them."""
        if not self.units.at.shape:
            return False
        stack, visited = [(self.units.at, False)], set[Way]()
        while stack and len(visited) < _NODE_LIMIT:
            way, gathered = stack.pop()
            if way in visited:
                continue
            visited.add(way)
            if way in self.others:
                return False
            name = name_of(way.node)
            if way.node in self.ends:
                self.units.ends.add(way.node)
                continue
            if name == "AccumulateGrad":
                continue
            self.units.combined |= len(way.sources) > 1
            if not self._follow(way, name):
                if not gathered:
                    return False
                self.scores = True  # their log-probabilities come with the logsumexp
                continue
            stack += [(source, gathered or name == "Gather") for source in way.sources]
        kinds = {name_of(node) for node in self.units.ends}
        return not stack and bool(kinds) and (not self.scores or "Logsumexp" in kinds)

    def _follow(self, way: Way, name: str) -> bool:
        if name in _REDUCTIONS:
            return self._along_rows(way)
        if name in _MASKS and len(way.sources) == 1:
            stays = name == "MaskedScatter" or (name == "Where" and way.node.next_functions[0][0] is not None)
            self._keep_mask(held(way.node, _MASKS[name]), stays)
        elif name in ("Mul", "Div") and len(way.sources) == 1:
            self._weigh(operand_of(way.node, name), name, way)
        else:
            self.units.own_numbers |= name in _BY_ELEMENT
        return name in _FOLLOWED

    def _along_rows(self, way: Way) -> bool:
        """A sum along the rows of a table; one over classes leaves a number for each log-probability."""
        sizes = getattr(way.node, "_saved_self_sym_sizes", ())
        dims = getattr(way.node, "_saved_dim", None)
        if dims is None or not sizes or len(sizes) < 2:
            return False
        if any((dim if dim < 1 << 63 else dim - (1 << 64)) % len(sizes) == 0 for dim in dims):
            return False
        if math.prod(sizes) <= self.rows:
            self.units.of_rows = "sequence" if sizes[0] == self.count else "example"
        return True

    def _weigh(self, operand: Tensor | None, name: str, way: Way) -> None:
        if operand is None:
            inverse = name == "Div" and way.node.next_functions[0][0] is None
            self.units.own_numbers |= inverse
            self.units.unclear |= not inverse
        elif operand.dim() and name == "Mul" and operand.numel() == self.count and is_mask(operand):
            self._keep_mask(operand, True)
        elif operand.dim() and operand.numel() <= self.rows:
            self.units.own_numbers = True
            self.units.numbers.append(operand)

    def _keep_mask(self, mask: Tensor | None, stays: bool) -> None:
        if mask is not None and mask.numel() == self.count and not self.units.of_rows:
            self.units.masks.append((mask != 0) if stays else (mask == 0))
        else:
            self.units.mask_unread = True
