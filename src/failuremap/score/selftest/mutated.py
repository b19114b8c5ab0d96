"""The mutants of a family's repair as trials; those that are the same function are listed, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator

from failuremap.catalogue.mechanism import Mechanism
from failuremap.score.forms import candidate_of
from failuremap.score.mutants import equivalents, mutants
from failuremap.score.selftest.trial import Trial


def mutated(entry: Mechanism) -> Iterator[Trial]:
    """Yields the mutants of a family's repair."""
    reasons = equivalents()
    for mutant in mutants(candidate_of(entry)):
        yield Trial("mutant", mutant.name, mutant.source, reasons.get((entry.slug, mutant.name), ""))
