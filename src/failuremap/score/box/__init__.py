"""A candidate in a process that can do nothing but compute, at the highest level that this machine has.

    box-3   bubblewrap, namespaces, no network, no files but Python's own, system calls filtered twice, limits, cgroup
    box-2   the same without a cgroup
    box-1   namespaces alone: no network, own processes; the files of this machine can be read
    none    limits alone: for candidates that you trust

`box-2` is the lowest sound one.
"""

from __future__ import annotations

from failuremap.score.box.box import Answer, Box
from failuremap.score.box.opening import LEVELS, SOUND_LEVELS, open_box, sound_level

__all__ = ["LEVELS", "SOUND_LEVELS", "Answer", "Box", "open_box", "sound_level"]
