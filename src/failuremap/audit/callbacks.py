"""Callbacks that watch a job from inside its trainer: Hugging Face's Trainer, and Lightning.

    from failuremap.audit.callbacks import TrainerAudit
    trainer = Trainer(model=model, args=args, train_dataset=data, callbacks=[TrainerAudit("runs/1")])

The frameworks are imported when a class is asked for. Both take what `failuremap.watch` takes, begin the watch where
they are made, and end it with the training; judge the traces with `failuremap diagnose runs/1`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from typing import Any


def __getattr__(name: str) -> Any:
    if name == "TrainerAudit":
        return _trainer_audit()
    if name == "LightningAudit":
        return _lightning_audit()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.cache
def _trainer_audit() -> Any:
    base: Any = importlib.import_module("transformers").TrainerCallback

    class TrainerAudit(base):  # type: ignore[misc]
        """A callback of transformers.Trainer that watches the training; takes what `failuremap.watch` takes."""

        def __init__(self, out: str, **options: Any) -> None:
            import failuremap

            self.watch = failuremap.watch(out, **options)

        def on_train_begin(self, *_: Any, model: Any = None, **__: Any) -> None:
            """Watches the model, which was built before the callback was."""
            if model is not None:
                self.watch.add(model)

        def on_train_end(self, *_: Any, **__: Any) -> None:
            """Ends the trace."""
            self.watch.close()

    return TrainerAudit


@functools.cache
def _lightning_audit() -> Any:
    name = "lightning.pytorch" if importlib.util.find_spec("lightning") else "pytorch_lightning"
    base: Any = importlib.import_module(name).Callback

    class LightningAudit(base):  # type: ignore[misc]
        """A callback of Lightning's Trainer that watches the training; takes what `failuremap.watch` takes."""

        def __init__(self, out: str, **options: Any) -> None:
            import failuremap

            self.watch = failuremap.watch(out, **options)

        def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:  # noqa: ARG002 - Lightning gives all three
            """Watches the module, which was built before the callback was."""
            self.watch.add(pl_module)

        def on_train_end(self, *_: Any) -> None:
            """Ends the trace."""
            self.watch.close()

    return LightningAudit
