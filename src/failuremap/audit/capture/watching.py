"""What the recorder keeps of one parameter and of one backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.held.layout import Layout, is_distributed, layout_of, local
from failuremap.audit.capture.sketches.pieces import Piece
from failuremap.audit.capture.sketches.shard_sketch import ShardSketch
from failuremap.audit.capture.sketches.sketch import COORDINATES, Sketch
from failuremap.audit.trace import as_runs

_PLAIN = (Tensor, torch.nn.Parameter)


@dataclass(frozen=True, eq=False)
class Place:
    """Where the elements that an optimizer steps on lie in a tensor that it holds in place of parameters."""

    tensor: Callable[[], Tensor | None]
    """A weak reference to it."""
    start: int
    """The first of them, in the flattened tensor."""
    size: int
    whole_weights: bool
    """Whether the parameter itself holds all weights on this rank; else its weights are read in the tensor."""

    def part_of(self, tensor: Tensor) -> Tensor:
        """These elements of the tensor, or of its gradient."""
        return tensor.detach().reshape(-1).narrow(0, self.start, self.size)


@dataclass(eq=False)
class Watched:
    """One parameter that the recorder watches; equal to itself alone."""

    id: int
    tensor: Callable[[], Tensor | None]
    """A weak reference to it: to the shard that the optimizer steps on, where a wrapper shards it."""
    sketch: Sketch
    dtype: str
    shape: tuple[int, ...]
    named: bool = False
    chosen: bool = False
    """Whether it is read in windows that are read in part."""
    sparse: bool = False
    """Whether its gradient comes as a sparse tensor."""
    hook: Any = None
    """Handle of the hook that reads the gradient."""
    after: Any = None
    """Handle of the second hook, behind the script's own ones; there only where the script has any."""
    waiting: Callable[[], Iterable[Tensor | None]] | None = None
    """Where a wrapper keeps gradients of it that are not in .grad yet."""
    in_copy: Callable[[], Tensor | None] | None = None
    """Finds what has been accumulated in a copy since the last step."""
    reached: bool = False
    """Whether autograd has ever brought a gradient of it."""
    piece: Layout | None = None
    """Which elements of it this rank has, where they are told by a wrapper and not by a DTensor."""
    place: Place | None = None
    """Where the optimizer steps on it, where it holds another tensor in its place."""
    readers: dict[str, tuple[Layout | None, Sketch | ShardSketch]] = field(default_factory=dict)
    """By what its gradient, its update and its weights are read, and how each is distributed over ranks, if it is."""
    told: set[str] = field(default_factory=set)
    """Which of these layouts the trace knows."""
    _plain: set[str] = field(default_factory=set)
    _specs: dict[str, Any] = field(default_factory=dict)
    """The description of the DTensor that was read last."""

    def read(self, tensor: Tensor, of: str) -> Piece:
        """What the sketch of a tensor, or of this rank's part of it, is made of.

        Args:
            tensor: Of this parameter: its gradient in a backward, what the optimizer steps on, or the parameter itself.
            of: Which: "gradient", "update" or "weights".
        """
        keep = of == "gradient"  # the others are written down before the job goes on
        self.reached |= keep
        if of in self._plain and type(tensor) is Tensor:
            return self.sketch.read(tensor, keep=keep)
        reader = self._reader(tensor, of)
        return reader.read(self._here(tensor, reader), keep=keep)

    def quick(self, gradient: Tensor) -> Piece | None:
        """What is read of a gradient that is like those before, at the least cost; None where `read` has to."""
        if type(gradient) is not Tensor or not self.named or "gradient" not in self._plain:
            return None
        return self.sketch.made(gradient)

    def sample(self, tensor: Tensor, of: str) -> Piece:
        """The sampled elements of a tensor; zero where they are not on this rank."""
        if of in self._plain and type(tensor) in _PLAIN:
            return self.sketch.sample(tensor)
        reader = self._reader(tensor, of)
        return reader.sample(self._here(tensor, reader))

    def held(self) -> Tensor | None:
        """The tensor that an optimizer holds for it."""
        return self.tensor() if self.place is None else self.place.tensor()

    def weights(self) -> tuple[Tensor | None, Layout | None]:
        """Its weights, as far as this rank has them, and which elements they are; None: all, or as a DTensor says.

        No weights where the job has let go of them.
        """
        found = self.tensor() if self.place is None or self.place.whole_weights else self.place.tensor()
        if found is None:
            return None, None
        if self.place is None or self.place.whole_weights:
            return found, self._piece_of("weights")
        return self._shaped(self.place.part_of(found)), self.piece

    def _piece_of(self, of: str) -> Layout | None:
        whole = of == "gradient" or (of == "weights" and self.place is not None and self.place.whole_weights)
        return None if whole else self.piece

    def _shaped(self, part: Tensor) -> Tensor:
        return part.view(self.shape) if self.piece is None else part

    def stepped_on(self) -> Tensor | None:
        """The gradient that an optimizer finds; empty where this rank holds nothing of the parameter."""
        if self.place is not None:
            held = self.place.tensor()
            gradient = None if held is None else held.grad
            return None if gradient is None else self._shaped(self.place.part_of(gradient))
        tensor = self.tensor()
        if tensor is None or tensor.grad is not None or self.piece is None or self.piece.run != (0, 0):
            return None if tensor is None else tensor.grad
        return tensor.detach().new_empty(0)

    @staticmethod
    def _here(tensor: Tensor, reader: Sketch | ShardSketch) -> Tensor:
        """This rank's own numbers; a wrapper may have padded them."""
        found = local(tensor)
        return found if isinstance(reader, Sketch) or is_distributed(tensor) else found.reshape(-1)[: reader.shape[0]]

    def _reader(self, tensor: Tensor, of: str) -> Sketch | ShardSketch:
        spec = getattr(tensor, "_spec", None)
        if spec is not None and self._specs.get(of) is spec:
            return self.readers[of][1]
        layout = layout_of(tensor) if is_distributed(tensor) else self._piece_of(of)
        if of not in self.readers:
            if layout is not None and layout.shape != self.shape:
                raise TypeError(f"the {of} of parameter {self.id} has the shape {layout.shape}, expected {self.shape}")
            self.readers[of] = layout, self.sketch if layout is None else ShardSketch(self.sketch, layout)
            self._plain |= {of} if layout is None else set()
        known, reader = self.readers[of]
        if known is not layout:
            raise TypeError(f"the {of} of parameter {self.id} is distributed over ranks in another way than before")
        self._specs[of] = spec
        return reader

    def layout(self, of: str) -> Layout | None:
        """How what was read last is distributed over ranks; None where this rank holds all of it."""
        return self.readers[of][0]

    def untold(self) -> Iterator[dict[str, Any]]:
        """The layouts that the trace does not know yet, as records."""
        for of, (layout, reader) in self.readers.items():
            if layout is not None and of not in self.told:
                self.told.add(of)
                where = {"held": reader.positions, "span": layout.span} if isinstance(reader, ShardSketch) else {}
                ranks = {"parts": as_runs(layout.parts), "mesh": as_runs(layout.mesh)}
                yield {"kind": "layout", "id": self.id, "of": of, **ranks, **where}

    def unlike(self, gradient: object, name: str) -> str:
        """What is wrong with a gradient that cannot be read as one of this parameter."""
        now = f"{type(gradient).__name__} of shape {tuple(getattr(gradient, 'shape', ()))}"
        which = f"parameter {name or self.id}"
        return f"the gradient of {which} is a {now}, and it was a tensor of shape {self.shape} when it was seen first"

    def holds_gradient(self) -> str:
        """Where a gradient is accumulated before a backward: "model", or "copy" where the optimizer steps on one.

        '' where there is none: whatever came before it was discarded.
        """
        tensor = self.tensor()
        gradient = None if tensor is None else tensor.grad
        if gradient is not None and self._is_live(gradient):
            return "model"
        for held in self.waiting() if self.waiting is not None else ():
            if held is not None and self._is_live(held):
                return "model"
        held = None if self.in_copy is None else self.in_copy()
        return "copy" if held is not None and self._is_live(held) else ""

    def _is_live(self, gradient: Tensor) -> bool:
        if type(gradient) is Tensor and gradient.shape == self.shape:
            return self.sketch.is_live(gradient)
        if not is_readable(gradient):
            return False
        flat = local(gradient).detach().reshape(-1)
        return bool(flat[:: max(1, len(flat) // COORDINATES)].any())


def is_plain(tensor: Tensor) -> bool:
    """Whether a parameter is of real numbers, and torch's operations are its own: no class has taken them over."""
    kind: Any = type(tensor)
    if kind not in _PLAIN and kind.__torch_function__ is not torch._C._disabled_torch_function_impl:
        return False
    return kind.__torch_dispatch__ is Tensor.__torch_dispatch__ and not tensor.is_complex()


def is_readable(tensor: object) -> bool:
    """Whether a gradient is of a type that sketches can read: a plain tensor, or a DTensor of plain tensors."""
    return type(local(tensor) if is_distributed(tensor) else tensor) is Tensor


@dataclass
class Backward:
    """The backward pass that is running, until it is written down."""

    id: int
    kind: str
    path: dict[str, Any]
    unseen: list[str]
    sketches: list[tuple[int, Piece]] = field(default_factory=list)
    """Each with the number of its parameter; threads of several devices add to it at once."""
    losses: list[dict[str, Any]] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    kept_in_copies: bool = False
    """Whether some of these gradients were in copies alone, which may be written over."""
    altered: list[tuple[int, Piece]] = field(default_factory=list)
    passed_by: bool = False
    """Whether it reached a parameter that was not read."""
    written: bool = False
    stage: dict[str, Any] | None = None
    """Its place in a pipeline, as a trace says it."""
    starts_at_loss: bool = False
    """Whether the loss is what a call inside it starts from, of a stage that is called for the whole of it."""
    received: list[Tensor] = field(default_factory=list)
    """Numbers by which the gradients that it starts from are known again, where it is given any."""

    def pipeline_fields(self) -> dict[str, Any]:
        """What a trace says of a pass of a stage, beside what it says of all."""
        fields = {"stage": self.stage, "received": [number.item() for number in self.received]}
        return {name: value for name, value in fields.items() if value}
