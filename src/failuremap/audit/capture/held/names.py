"""Names of parameters, found late: modules are remembered as they are built, and asked when a name is needed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

_WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


class Modules:
    """All modules that were built in this process, held weakly."""

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        self._names = WeakTensorKeyDictionary()
        self._stands_for = WeakTensorKeyDictionary()
        self._embedding: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._wrappers: list[weakref.ref[torch.nn.Module]] = []
        self._registered = WeakTensorKeyDictionary()

    def add(self, module: torch.nn.Module, parameter: Tensor | None = None) -> None:
        """Remembers a module; called whenever one registers a parameter or a child."""
        if module not in self._seen and type(module).__name__ == "DistributedDataParallel":
            self._wrappers.append(weakref.ref(module))
        number = self._seen.setdefault(module, len(self._seen))
        if isinstance(module, torch.nn.Embedding):
            self._embedding.add(module)
        if parameter is not None:
            self._registered.setdefault(parameter, set()).add(number)

    def held_as(self, tensor: Tensor | None) -> list[str]:
        """What tells copies of one weight from others: 'embedding' of one that embeds, 'several' modules' own."""
        if tensor is None:
            return []
        weights = (weight for module in self._embedding for weight in module.parameters(recurse=False))
        found = ["embedding"] if any(self.stood_for(weight) is tensor for weight in weights) else []
        return found + (["several"] if len(self._registered.get(tensor, ())) > 1 else [])

    def _all(self) -> list[torch.nn.Module]:
        # in the order in which they were built: the same on every rank
        return sorted(self._seen.keys(), key=lambda module: self._seen[module])

    def data_parallel(self) -> list[torch.nn.Module]:
        """The DistributedDataParallel wrappers that are alive."""
        return [module for module in (reference() for reference in self._wrappers) if module is not None]

    def unit(self) -> str:
        """What a loss most likely counts: tokens where something embeds, examples elsewhere."""
        embeds = any(isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag) for module in self._all())
        return "token" if embeds else "example"

    def name(self, tensor: Tensor | None) -> str:
        """The parameter's name in the outermost module that holds it; '' if none does."""
        if tensor is None:
            return ""
        if tensor not in self._names:
            self._resolve()
        return str(self._names.get(tensor, ""))

    def stand_for(self, gathered: Tensor, parameter: Callable[[], Tensor | None]) -> None:
        """Says that a tensor stands in modules for a parameter, for as long as it is gathered from its shards."""
        self._stands_for[gathered] = parameter

    def stood_for(self, registered: Tensor) -> Tensor | None:
        """The parameter that a tensor in a module stands for; itself, mostly."""
        stands_for = self._stands_for.get(registered)
        return registered if stands_for is None else stands_for()

    def forget(self, tensor: Tensor) -> str:
        """Drops every reference to a tensor, and returns the name that it has."""
        self._stands_for.pop(tensor, None)
        self._registered.pop(tensor, None)
        return str(self._names.pop(tensor, ""))

    def remember(self, tensor: Tensor, name: str) -> None:
        """Gives a tensor the name that it had."""
        if name:
            self._names[tensor] = name

    def parameters(self) -> Iterator[tuple[str, Tensor]]:
        """All parameters that modules hold, each once, with the names that they have."""
        seen = set[str]()
        for root in self._roots():
            for registered in root.parameters():
                parameter = self.stood_for(registered)
                name = self.name(parameter)
                if parameter is not None and name and name not in seen:
                    seen.add(name)
                    yield name, parameter

    def named_modules(self) -> Iterator[tuple[str, torch.nn.Module]]:
        """All modules, each with its name in the outermost one that holds it; wrappers have that of what they wrap."""
        for root in self._roots():
            for name, module in root.named_modules():
                yield _bare(name), module

    def training_modes(self) -> dict[str, bool]:
        """By module whether it is in training mode; where several models have one name for it, whether it is in one."""
        found: dict[str, bool] = {}
        for root in self._roots():
            own = {_bare(name): module.training for name, module in root.named_modules()}
            found |= {name: training or found.get(name, False) for name, training in own.items()}
        return found

    def _resolve(self) -> None:
        taken = {str(name) for name in self._names.values()}
        for root in self._roots():
            for name, registered in root.named_parameters():
                parameter = self.stood_for(registered)
                if parameter is not None and parameter not in self._names:
                    self._names[parameter] = _unused(_without_wrappers(name), taken)

    def _roots(self) -> Iterator[torch.nn.Module]:
        modules = self._all()
        children = {id(child) for module in modules for child in module.children()}
        yield from (module for module in modules if id(module) not in children)


def _bare(name: str) -> str:
    """The name of a module; a wrapper has that of what it wraps."""
    return _without_wrappers(f"{name}.").removesuffix(".")


def _without_wrappers(name: str) -> str:
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    while name.startswith("module."):
        name = name.removeprefix("module.")
    return name


def _unused(name: str, taken: set[str]) -> str:
    number, candidate = 1, name
    while candidate in taken:
        number += 1
        candidate = f"{name} #{number}"
    taken.add(candidate)
    return candidate
