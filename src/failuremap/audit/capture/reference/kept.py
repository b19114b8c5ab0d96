"""What the ranks kept of a window, read and put together: whole weights, and one batch for each contribution."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.batches import Batch, Call, fingerprint
from failuremap.audit.capture.keeping import BATCH_LIMIT, LIMIT
from failuremap.audit.capture.reference import Refused
from failuremap.audit.launch.reference import NUMBERED

Member = tuple[int, int]
"""A rank, and the number of one of its backward passes."""


@dataclass(frozen=True)
class Contribution:
    """The batch of one or several passes: ranks that run one model go through the same one."""

    members: list[Member]
    batch: Batch


class Window:
    """One window of all ranks.

    Args:
        kept: What each rank kept, by rank.
        shards: By the name of a parameter, or a pattern, the dimension that a script's own code splits it along.
        stages: Whether each rank holds some of the layers: passes of all ranks are then one contribution.
        before: The window before; what each rank holds a part of stays so.
    """

    def __init__(
        self,
        kept: Mapping[int, dict[str, Any]],
        shards: Mapping[str, int],
        *,
        stages: bool = False,
        before: Window | None = None,
    ) -> None:
        self.kept, self._shards, self._stages = _renamed(dict(sorted(kept.items()))), shards, stages
        first = next(iter(self.kept.values()))
        self.optimizer, self.count = int(first["optimizer"]), int(first["count"])
        missing = sorted(set(range(first["world_size"])) - set(self.kept))
        if missing:
            raise Refused(f"rank {missing[0]} kept nothing of step {self.count + 1}")
        for rank, found in self.kept.items():
            if "too_large" in found:
                weights, batches = (size / 2**20 for size in found["too_large"])
                raise Refused(
                    f"rank {rank} would have to keep {weights:.0f} MiB of weights and {batches:.0f} MiB of batches of "
                    f"step {self.count + 1}; the limits are {LIMIT >> 20} MiB and {BATCH_LIMIT >> 20} MiB: audit a "
                    f"smaller {'batch' if batches > BATCH_LIMIT >> 20 else 'model of the same code'}"
                )
        self.models = _same_batches({rank: _passes(found) for rank, found in self.kept.items()})
        self.places: dict[int, int] = before.places if before is not None else self._placed()
        """By rank which part it holds of the parameters that are split."""

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The buffers of rank 0 when the window began, and of stages those of each."""
        held = self.kept.values() if self._stages else [self.kept[0]]
        return {name: buffer for kept in reversed([*held]) for name, buffer in kept["buffers"].items()}

    @property
    def evaluating(self) -> set[str]:
        """Names of the modules that were not in training mode."""
        held = self.kept.values() if self._stages else [self.kept[0]]
        return {name for kept in held for name in kept["evaluating"]}

    def sharded_along(self, name: str) -> int | None:
        """The dimension along which the ranks of a model hold a parameter in parts, by the script's own code."""
        return next((dim for pattern, dim in self._shards.items() if fnmatch.fnmatchcase(name, pattern)), None)

    def weights(self) -> dict[str, Tensor]:
        """All parameters of the model, whole."""
        found: dict[str, Tensor] = {}
        for kept in self.kept.values():
            for name, held in kept["parameters"].items():
                dim = self.sharded_along(name)
                if "parts" in held:
                    whole = found.setdefault(name, torch.zeros(held["shape"], dtype=held["local"].dtype))
                    _lay_into(whole, held)
                elif dim is None:
                    found.setdefault(name, held["local"])
                elif name not in found:
                    found[name] = torch.cat(self._parts(name), dim)
        return found

    def _placed(self) -> dict[int, int]:
        """Ranks with the same parts are copies; where all parts are alike, each rank of a model holds one."""
        prints: dict[str, int] = {}
        found = {}
        for rank, kept in self.kept.items():
            held = kept["parameters"].items()
            split = [part["local"] for name, part in held if self.sharded_along(name) is not None]
            found[rank] = prints.setdefault(fingerprint(split), len(prints))
        by_model = {rank: place for model in self.models for place, rank in enumerate(model)}
        return found if len(prints) > 1 else by_model

    def _parts(self, name: str) -> list[Tensor]:
        """The parts of a parameter, each from the first rank that holds it."""
        by_place = {place: rank for rank, place in reversed(self.places.items())}
        return [self.kept[rank]["parameters"][name]["local"] for _, rank in sorted(by_place.items())]

    @property
    def trained(self) -> set[str]:
        """Names of the parameters that may get a gradient."""
        return {name for kept in self.kept.values() for name, held in kept["parameters"].items() if held["trained"]}

    def losses(self, members: Sequence[Member]) -> list[float]:
        """What these passes started at, those that started at one number."""
        told = {(rank, one["backward"]): one.get("loss") for rank, kept in self.kept.items() for one in kept["passes"]}
        return [told[member] for member in members if told.get(member) is not None]

    def chunks(self, name: str, whole: Tensor) -> dict[int | None, Tensor]:
        """What each rank has of a tensor that is laid out as a parameter; under None where all have it whole."""
        dim = self.sharded_along(name)
        if dim is None:
            return {None: whole}
        parts = whole.split([part.shape[dim] for part in self._parts(name)], dim)
        return {rank: parts[place] for rank, place in self.places.items()}

    def contributions(self, gather: Callable[[list[Batch]], Any] | None) -> list[Contribution]:
        """One for each micro-batch of each model; with `gather` or stages, one for each of all ranks."""
        by_rank = {rank: _passes(found) for rank, found in self.kept.items()}
        if self._stages:
            return _of_stages(by_rank, gather)
        groups = [list(self.kept)] if gather else self.models
        found = []
        for ranks in groups:
            if len({len(by_rank[rank]) for rank in ranks}) > 1:
                raise Refused(f"ranks {', '.join(map(str, ranks))} made different numbers of backward passes")
            for same in zip(*(by_rank[rank] for rank in ranks), strict=True):
                members = [(rank, number) for rank, (number, _) in zip(ranks, same, strict=True)]
                batches = [batch for _, batch in same]
                self._check(members, batches)
                found.append(Contribution(members, gather(batches) if gather else batches[0]))
        return found

    def _check(self, members: list[Member], batches: list[Batch]) -> None:
        for (rank, number), batch in zip(members, batches, strict=True):
            if not batch:
                raise Refused(
                    f"of backward pass {number} on rank {rank} no batch was seen: no module that no other holds was "
                    "called before it. Say what the pass is made of, in the script:  failuremap.batch(inputs, targets)"
                )


def read_windows(folder: Path, shards: Mapping[str, int], *, stages: bool = False) -> list[Window]:
    """All windows that the ranks kept in a folder, in order."""
    by_step: dict[tuple[int, int], dict[int, dict[str, Any]]] = {}
    for path in sorted(folder.glob("kept-rank*.pt")):
        kept = torch.load(path, weights_only=True)
        by_step.setdefault((kept["count"], kept["optimizer"]), {})[kept["rank"]] = kept
    if not by_step:
        raise Refused("the job kept nothing to compare: no optimizer stepped behind a backward pass")
    windows: list[Window] = []
    for _, kept in sorted(by_step.items()):
        windows.append(Window(kept, shards, stages=stages, before=windows[-1] if windows else None))
    return windows


def _of_stages(
    by_rank: Mapping[int, list[tuple[int, Batch]]], gather: Callable[[list[Batch]], Any] | None
) -> list[Contribution]:
    """One for each micro-batch, of all stages; one for the window where a rank has other passes than the others.

    A schedule calls a stage for several micro-batches before the first of them goes backward. Where each rank runs one
    stage, calls and passes come in the order of the micro-batches, behind a call that finds out shapes.
    """
    if gather is None:
        raise Refused(
            "stages = True, and no gather(batches): the first stage has the inputs and the last one the targets of a "
            "micro-batch. Define one that returns both"
        )
    whole = [_put_together([batch for _, batch in passes]) for passes in by_rank.values()]
    counts = {len(passes) for passes in by_rank.values()}
    if len(counts) > 1:
        members = [(rank, number) for rank, passes in by_rank.items() for number, _ in passes]
        return [Contribution(members, gather(whole))]
    (count,) = counts
    return [
        Contribution(
            [(rank, passes[k][0]) for rank, passes in by_rank.items()], gather([_share(one, k, count) for one in whole])
        )
        for k in range(count)
    ]


def _put_together(batches: Sequence[Batch]) -> Batch:
    calls = [call for batch in batches for call in batch.calls]
    targets = [target for batch in batches for target in batch.targets]
    told = tuple(value for batch in batches for value in batch.told)
    return Batch(calls, targets, told, batches[0].left_out if batches else [])


def _share(whole: Batch, k: int, count: int) -> Batch:
    """One of `count` equal shares of the last that a window's batch holds."""

    def mine(length: int) -> slice:
        size, first = length // count, length % count
        return slice(first + k * size, first + (k + 1) * size)

    calls, targets = whole.calls[mine(len(whole.calls))], whole.targets[mine(len(whole.targets))]
    return Batch(calls, targets, whole.told[mine(len(whole.told))], whole.left_out)


def _passes(kept: Mapping[str, Any]) -> list[tuple[int, Batch]]:
    """The passes by number, with what they are made of; one without a gradient has the number of the next."""
    found: dict[int, list[Batch]] = {}
    for one in kept.get("passes", ()):
        batch = Batch([Call(**call) for call in one["calls"]], one["targets"], one["told"], kept["left_out"])
        found.setdefault(one["backward"], []).append(batch)
    return [(number, _put_together(batches)) for number, batches in found.items()]


def _renamed(kept: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The parameters that are stepped on without the number that tells them from those of another model like theirs."""
    held = [found.get("parameters", {}) for found in kept.values()]
    stepped = {name for parameters in held for name, part in parameters.items() if part.get("stepped")}
    bare = {name: NUMBERED.sub("", name) for name in stepped}
    taken = set(bare.values())
    if len(taken) < len(bare) or taken == stepped:
        return kept
    return {
        rank: found | {"parameters": {bare.get(n, n): p for n, p in part.items() if n in bare or n not in taken}}
        for (rank, found), part in zip(kept.items(), held, strict=True)
    }


def _same_batches(passes: Mapping[int, list[tuple[int, Batch]]]) -> list[list[int]]:
    """The ranks, sorted into those that go through the same batches from first to last."""
    groups: dict[str, list[int]] = {}
    for rank, found in passes.items():
        groups.setdefault(fingerprint([batch.content for _, batch in found]), []).append(rank)
    return list(groups.values())


def _lay_into(whole: Tensor, held: Mapping[str, Any]) -> None:
    """Puts one rank's part of a tensor where it lies."""
    if "run" in held:
        first, stop = held["run"]
        whole.view(-1)[first:stop] = held["local"].reshape(-1)
    elif not whole.dim():
        whole.copy_(held["local"])
    elif held["local"].numel():
        whole[torch.meshgrid(*held["held"], indexing="ij")] = held["local"].reshape([len(at) for at in held["held"]])
