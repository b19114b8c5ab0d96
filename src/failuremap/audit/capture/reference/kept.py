"""What the ranks kept of a window, read and put together: whole weights, and one batch for each contribution."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from failuremap.audit.capture.batches import Batch, Call, fingerprint
from failuremap.audit.capture.keeping import BATCH_LIMIT, LIMIT
from failuremap.audit.capture.reference import Refused

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
    """

    def __init__(self, kept: Mapping[int, dict[str, Any]], shards: Mapping[str, int]) -> None:
        self.kept, self._shards = dict(sorted(kept.items())), shards
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

    @property
    def buffers(self) -> dict[str, Tensor]:
        """The buffers of rank 0 when the window began."""
        return dict(self.kept[0]["buffers"])

    @property
    def evaluating(self) -> set[str]:
        """Names of the modules that were not in training mode."""
        return set(self.kept[0]["evaluating"])

    def sharded_along(self, name: str) -> int | None:
        """The dimension along which the ranks of a model hold a parameter in parts, by the script's own code."""
        return next((dim for pattern, dim in self._shards.items() if fnmatch.fnmatchcase(name, pattern)), None)

    def weights(self) -> dict[str, Tensor]:
        """All parameters of the model, whole."""
        found: dict[str, Tensor] = {}
        for rank, kept in self.kept.items():
            for name, held in kept["parameters"].items():
                dim = self.sharded_along(name)
                if "parts" in held:
                    whole = found.setdefault(name, torch.zeros(held["shape"], dtype=held["local"].dtype))
                    _lay_into(whole, held)
                elif dim is None and rank == 0:
                    found[name] = held["local"]
                elif dim is not None and rank == self.models[0][0]:
                    parts = [self.kept[other]["parameters"][name]["local"] for other in self.models[0]]
                    found[name] = torch.cat(parts, dim)
        return found

    @property
    def trained(self) -> set[str]:
        """Names of the parameters that may get a gradient."""
        return {name for kept in self.kept.values() for name, held in kept["parameters"].items() if held["trained"]}

    def chunks(self, name: str, whole: Tensor) -> dict[int | None, Tensor]:
        """What each rank has of a tensor that is laid out as a parameter; under None where all have it whole."""
        dim = self.sharded_along(name)
        if dim is None:
            return {None: whole}
        found: dict[int | None, Tensor] = {}
        for model in self.models:
            sizes = [self.kept[rank]["parameters"][name]["local"].shape[dim] for rank in model]
            found |= dict(zip(model, whole.split(sizes, dim), strict=True))
        return found

    def contributions(self, gather: Callable[[list[Batch]], Any] | None) -> list[Contribution]:
        """One for each micro-batch of each model; with `gather`, one for each micro-batch of all ranks together."""
        by_rank = {rank: _passes(found) for rank, found in self.kept.items()}
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


def read_windows(folder: Path, shards: Mapping[str, int]) -> list[Window]:
    """All windows that the ranks kept in a folder, in order."""
    by_step: dict[tuple[int, int], dict[int, dict[str, Any]]] = {}
    for path in sorted(folder.glob("kept-rank*.pt")):
        kept = torch.load(path, weights_only=True)
        by_step.setdefault((kept["count"], kept["optimizer"]), {})[kept["rank"]] = kept
    if not by_step:
        raise Refused("the job kept nothing to compare: no optimizer stepped behind a backward pass")
    return [Window(kept, shards) for _, kept in sorted(by_step.items())]


def _passes(kept: Mapping[str, Any]) -> list[tuple[int, Batch]]:
    return [
        (one["backward"], Batch([Call(**call) for call in one["calls"]], one["targets"], one["told"], kept["left_out"]))
        for one in kept.get("passes", ())
    ]


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
