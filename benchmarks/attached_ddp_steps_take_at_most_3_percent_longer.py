"""A step of DistributedDataParallel takes at most 3 % longer where the model is attached, with counts.

The transformer of the audit's benchmark, twice in each of two ranks, one thread each: one model as DDP has it, one
attached. They take steps in turn, so that both share their surroundings; CPU time counts no other program.
"""

from __future__ import annotations

import sys

from support.attached import compare

if __name__ == "__main__":
    sys.exit(compare("ddp", 1.03, __doc__))
