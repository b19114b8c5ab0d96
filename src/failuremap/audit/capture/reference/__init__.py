"""The reference run: one process computes, on the batches and weights that a job kept, what it should have added up."""

from __future__ import annotations


class Refused(Exception):
    """Nothing can be compared; the message says why and what would help. It becomes a reason of the verdict."""
