"""What to do about a finding: one repair for each mechanism that may be its cause, advice where it has no name."""

from __future__ import annotations

from failuremap.audit.model import Finding, Verdict
from failuremap.catalogue.shelf import mechanisms


def repairs(finding: Finding, verdict: Verdict) -> list[str]:
    """Give the repairs of a finding; where several mechanisms fit, each repair says for which it is.

    The first candidate's repair is the finding's own; the others' stand in the catalogue, if it knows them.
    """
    if not finding.candidates:
        return [finding.repair or _advice(finding, verdict)]
    if len(finding.candidates) == 1:
        return [finding.repair] if finding.repair else []
    known = mechanisms()
    causes: dict[str, list[str]] = {}
    for index, candidate in enumerate(finding.candidates):
        entry = known.get(candidate.slug)
        text = finding.repair if index == 0 else entry.repair if entry else ""
        causes.setdefault(text, []).append(candidate.slug)
    return [f"If it is {' or '.join(slugs)}: {text}" for text, slugs in causes.items() if text]


def _advice(finding: Finding, verdict: Verdict) -> str:
    """Say where to look for a rule that has no name."""
    fair = "1" if verdict.promise == "sum" else "1/N"
    where = "" if fair == "1" else f", N being the {verdict.unit}s of the whole window on all ranks"
    advice = f"Every {verdict.unit} should weigh {fair}, on every parameter{where}."
    if not (finding.cells or verdict.cells):
        return advice
    return (
        f"{advice} That is `coefficient` times `loss_weight` of each cell (--json FILE). Compare both between the "
        "cells: coefficients come from the reduction, the accumulation and the clipping, loss weights from what "
        "each loss is divided by."
    )
