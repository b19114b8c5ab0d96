"""A step of fully_shard (FSDP2) takes at most 2 % longer where the audit reads it whole: 50M parameters.

A causal transformer, 1,024 tokens a rank, two ranks, one thread each. Three measures of CPU time, which counts no other
program: inside the audit's own entries; of a plain job and an audited one that take steps in turn, so that both share
their surroundings; and of the same over 128 tokens a rank, of which the audit takes as much.
"""

from __future__ import annotations

import sys

from support.cost import compare

if __name__ == "__main__":
    sys.exit(compare("fsdp", "50m", 1.02, __doc__))
