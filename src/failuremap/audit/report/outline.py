"""The labelled lines of a verdict: the terminal and the HTML report say the same, from here."""

from __future__ import annotations

import math

from failuremap.audit.extent import Extent
from failuremap.audit.model import Candidate, Cell, Evidence, Finding, Outcome, Verdict
from failuremap.audit.report.words import clean, decimal, plural, power, runs, shorten, some

Line = tuple[str, str]

MARKS: dict[Outcome, str] = {"right": "✓", "wrong": "✗", "cannot tell": "?", "not measured": "?", "script failed": "!"}

MOST_COEFFICIENTS = 8
MOST_SCRIPT_LETTERS = 60
UNTIL_THEN = "Until then: "


def context(verdict: Verdict) -> list[str]:
    """Say what was looked at: steps, ranks x micro-batches, parameters, the script and its exit code if not 0."""
    seen = verdict.evidence
    said = [_steps_seen(seen)] if seen.step_count else []
    if seen.rank_count:
        said.append(f"{plural(seen.rank_count, 'rank')} x {plural(seen.micro_batch_count, 'micro-batch', 'es')}")
    if seen.parameter_total:
        said.append(f"{seen.parameter_count:,} of {plural(seen.parameter_total, 'parameter')}")
    if verdict.script:
        said.append(shorten(clean(verdict.script), MOST_SCRIPT_LETTERS))
    if verdict.script_exit_code:
        said.append(f"exit code {verdict.script_exit_code}")
    return said


def _steps_seen(seen: Evidence) -> str:
    if seen.first_step is None or seen.last_step is None:
        return plural(seen.step_count, "step")
    if seen.first_step == seen.last_step:
        return f"step {seen.first_step}"
    span = f"steps {seen.first_step}-{seen.last_step}"
    all_judged = seen.step_count >= seen.last_step - seen.first_step + 1
    return span if all_judged else f"{seen.step_count} of {span}"


def about(finding: Finding, verdict: Verdict) -> list[Line]:
    """Say of a finding: the rule followed and promised, the mechanism, where, and how much it matters."""
    separate = "; or ".join(dict.fromkeys(clean(one.separated_by) for one in finding.candidates if one.separated_by))
    lines = [
        ("followed", clean(finding.followed)),
        ("promised", clean(finding.promised)),
        ("mechanism", _mechanism(finding.candidates)),
        ("separate", separate if len(finding.candidates) > 1 else ""),
        ("where", " · ".join(_where(finding, verdict.evidence))),
        ("effect", " · ".join(_effect(finding, verdict.promise))),
    ]
    return [line for line in lines if line[1]]


def _mechanism(candidates: list[Candidate]) -> str:
    if not candidates:
        return "none of the catalogue fits: a wrong rule without a name"
    return "  or  ".join(f"{clean(one.title)} (failuremap show {clean(one.slug)})" for one in candidates)


def _where(finding: Finding, seen: Evidence) -> list[str]:
    """Say on which steps, parameters and loss term, as far as these are not all that were seen."""
    said = []
    if finding.steps and len(set(finding.steps)) < seen.step_count:
        said.append(("steps " if len(set(finding.steps)) > 1 else "step ") + runs(finding.steps))
    if 0 < finding.parameter_count < seen.parameter_total:
        read = seen.parameter_total if finding.parameters_read is None else finding.parameters_read
        part = Extent(read, seen.parameter_total).of(finding.parameter_count)
        said.append(f"{part}: {some(finding.parameters, finding.parameter_count)}" if finding.parameters else part)
    return said + ([f"loss term {clean(finding.term)}"] if finding.term else [])


def _effect(finding: Finding, promise: str) -> list[str]:
    said = []
    if finding.ratio == math.inf:
        said.append("the lightest weighs nothing")
    elif finding.ratio is not None and decimal(finding.ratio) != "1.00":
        said.append(f"heaviest to lightest {decimal(finding.ratio)} : 1")
    total = None if finding.total_weight is None else decimal(finding.total_weight)
    if total is not None and promise == "sum":
        said.append(f"total weight {total}")
    elif total is not None and total != "1.00":
        said.append(f"total weight {total}, a mean has 1")
    if finding.effect is not None:
        off = f"update off by {decimal(finding.effect)} of the right one"
        said.append(off if math.isfinite(finding.effect) else f"the update's error is {decimal(finding.effect)}")
    return said


def leads(verdict: Verdict) -> bool:
    """Whether the sentence opens with the outcome itself, which then need not stand before it."""
    return verdict.sentence.lower().startswith(verdict.outcome)


def notes(verdict: Verdict) -> list[str]:
    """Give the notes; of a script that failed before anything was measured, not what there was until then."""
    nothing = verdict.outcome == "script failed" and not verdict.evidence.step_count
    return [clean(note) for note in verdict.notes if not (nothing and note.startswith(UNTIL_THEN))]


def because(verdict: Verdict) -> list[Line]:
    """Give each reason its own line, in the order of the verdict."""
    label = "why" if verdict.outcome == "script failed" else "reason"
    return [(label if index == 0 else "", clean(reason)) for index, reason in enumerate(verdict.reasons)]


def rests_on(cells: list[Cell], seen: Evidence) -> str:
    """Say what the verdict rests on: coefficients, residual, the losses that were seen; empty if on nothing."""
    said = [_coefficients([cell.coefficient for cell in cells if cell.coefficient is not None])]
    if said[0] and seen.coefficient_error is not None:
        said[0] += f" (relative error {power(seen.coefficient_error)})"
    if seen.residual is not None:
        said.append(f"residual {power(seen.residual)}")
    return "; ".join(part for part in (", ".join(filter(None, said)), _losses(seen)) if part)


def _coefficients(values: list[float]) -> str:
    texts = [coefficient_text(value) for value in values]
    if not texts:
        return ""
    if len(texts) > 1 and len(set(texts)) == 1:
        return f"{plural(len(texts), 'coefficient')}, all {texts[0]}"
    if len(texts) <= MOST_COEFFICIENTS:
        return f"{'coefficients' if len(texts) > 1 else 'coefficient'} {' '.join(texts)}"
    span = f"from {coefficient_text(min(values))} to {coefficient_text(max(values))}"
    return f"{plural(len(texts), 'coefficient')} {span}"


def coefficient_text(value: float) -> str:
    """Write a coefficient with four places, or four digits where it is small."""
    return f"{value:.4f}" if 0.1 <= abs(value) < 1000 or value == 0 else f"{value:.4g}"


def _losses(seen: Evidence) -> str:
    if not seen.losses_total:
        return ""
    count = f"{seen.losses_seen:,} of {plural(seen.losses_total, 'loss', 'es')} seen"
    if not seen.losses_seen or not seen.loss_sites:
        return count
    return f"loss weights from {some(seen.loss_sites, len(seen.loss_sites), 2)}, {count}"
