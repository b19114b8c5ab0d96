"""Which frameworks a job uses, and whether this audit was tested with them.

Of a framework only DeepSpeed's engine and optimizers are patched, so another version is measured as any script is; what
it does may still be new.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from failuremap.audit.capture.recorder import Recorder

# requirements/*.txt pins them; a test compares
TESTED = {
    "transformers": "5.24.0",
    "accelerate": "1.15.0",
    "trl": "1.16.0",
    "lightning": "2.6.6",
    "deepspeed": "0.19.8",
    "torchtune": "0.6.1",
    "torchtitan": "0.3.0",
}


def unknown(modules: Mapping[str, object] | None = None) -> list[str]:
    """One sentence for each framework that is imported in a version of another series than the tested one.

    Args:
        modules: By name; those of this process if None.

    Example:
        >>> unknown({})
        []
    """
    imported = sys.modules if modules is None else modules
    found = {name: str(getattr(imported.get(name), "__version__", "")) for name in TESTED}
    return [
        f"{name} {version}: tested with {TESTED[name]}; a loss that is computed in a new way there is not measured, "
        "and never called right"
        for name, version in found.items()
        if version and _series(version) != _series(TESTED[name])
    ]


def tell(recorder: Recorder) -> None:
    """Writes down the frameworks that are unknown, if this is the first rank and its trace has not ended."""
    if recorder.writer is None or recorder.finished or os.environ.get("RANK", "0") != "0":
        return
    try:
        for sentence in unknown():
            recorder.write({"kind": "note", "text": sentence})
    except Exception as error:
        recorder.note_error("frameworks", error)


def _series(version: str) -> list[str]:
    """What a version shares with those that should behave alike: the first number that is not 0, and those before."""
    parts = version.split(".")
    return parts[:2] if parts[0] == "0" else parts[:1]
