"""A step of DistributedDataParallel takes at most 2 % longer where the audit reads it whole: 50M parameters.

A causal transformer, 1,024 tokens a rank, two ranks, one thread each. A plain job and an audited one run at once and
take their steps in turn, so that both share their surroundings; CPU time counts no other program.
"""

from __future__ import annotations

import sys

from support.turns import compare

if __name__ == "__main__":
    sys.exit(compare("ddp", "50m", 1.02, __doc__))
