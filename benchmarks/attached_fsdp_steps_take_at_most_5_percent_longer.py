"""A step under fully_shard (FSDP2) takes at most 5 % longer where the model is attached, with counts.

As for DDP: two models in each of two ranks take steps in turn. Each block is wrapped, and the model.
"""

from __future__ import annotations

import sys

from support.attached import compare

if __name__ == "__main__":
    sys.exit(compare("fsdp", 1.05, __doc__))
