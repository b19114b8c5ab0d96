"""What one unit of each contribution weighs in its own loss, from the loss functions that were seen.

    total weight of contribution k in the update = c_k * W_k,   W_k = sum over its units of dL_k / d(loss of the unit)
    effective weight of a unit                   = c_k * W_k / n_k

A loss made of several terms is judged term by term. Legend: K contributions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from failuremap.audit.sentences.loss_words import tokens_in_rows, weights_apart, weights_from_logits
from failuremap.audit.steps.story import Backward
from failuremap.audit.weighing.lines import Groups, joined_by_line
from failuremap.audit.weighing.scales import hides_a_factor, is_unmoved, multiplied_by

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
# what units weigh apart from numbers of the script's own; see capture/apart.py
APART = "loss_per_unit"
# losses that were written out, by what they are made of; see capture/likelihoods.py and capture/logits.py
_BY_HAND = ("log_softmax", "logsigmoid", "cross_entropy_at_logits", "cross_entropy_at_hidden", APART)
_ALIKE = 0.01


@dataclass(frozen=True)
class Term:
    """One term of the loss, over all contributions."""

    name: str
    counts_K: Floats
    totals_K: Floats
    has_K: Mask
    spread: float
    """Heaviest unit over lightest inside one contribution; 1 where the script weighs its units alike."""
    total_known: bool
    """Whether the scale that reached the loss was seen."""
    elements: float
    """All units, those that the loss ignores included."""
    rows_K: Floats | None = None
    """The rows in which its units stood, as tokens stand in sequences; None where they stood in none, or are rows."""
    row_length: float = 0.0
    """Numbers in each row of a loss that the script itself divides; 0 where they stand in none, or rows differ."""
    hidden_in: str = ""
    """A function of the script's own whose inside is hidden, a factor with it; '' where there is none."""
    unmoved: bool = False
    """Whether each unit weighs in that function as if 1 had reached it, and something else did."""
    apart: bool = False
    """Whether units have numbers of the script's own, such as advantages, beside what they weigh here."""
    times: float | None = 1.0
    """The number that the script multiplies each of its losses by, as far as is known; None where it is learned."""
    joined: int = 0
    """How many losses over the same units it is made of; 0 where it is one."""

    @property
    def function(self) -> str:
        """What makes it, as `cross_entropy(mean)`; several, where it does not come from one."""
        return ", ".join(sorted({one.partition(" at ")[0] for one in self.name.split(", ")}))

    @cached_property
    def unit_weights_K(self) -> Floats:
        """W_k / n_k; 0 where a contribution has no unit."""
        return np.where(self.counts_K > 0, self.totals_K / np.where(self.counts_K > 0, self.counts_K, 1), 0.0)


@dataclass(frozen=True)
class Readings:
    """All that the losses of one step say."""

    alternatives: list[list[Term]]
    """Ways to sort the losses into terms; the first is the one to believe where none makes the job right."""
    unseen: list[int]
    """Contributions with a loss, or a part of it, that was not seen."""
    unseen_operations: list[str]
    uncounted: str
    """Why units could not be counted as asked; '' if they could."""


def read_losses(backwards: Sequence[Backward], unit: str | None, used_KP: Mask | None = None) -> Readings:
    """Sorts the losses of a step's backward passes into terms and counts their units.

    Args:
        backwards: One for each contribution.
        unit: "example" or "sequence" to count whole rows of the targets; otherwise what the loss counts.
        used_KP: Whether a contribution has a gradient of a parameter; None where not all of them were read.
    """
    groups: Groups = {}
    for k, backward in enumerate(backwards):
        for place, loss in _told_apart(backward):
            key = (loss["function"], loss.get("classes"), place)
            groups.setdefault(key, {}).setdefault(k, []).append(loss)
    groups = joined_by_line(groups, used_KP)
    own = _weighed_by_the_script(groups)
    ways = [_merged(groups), list(groups.values())]
    rows = unit in ("example", "sequence")
    uncounted = _uncounted(groups, unit)
    alternatives = [
        _each_named([_term(group, len(backwards), rows) for group in way])
        for way in (ways if len(ways[0]) < len(ways[1]) else ways[:1])
    ]
    unseen = [k for k, backward in enumerate(backwards) if _has_unseen(backward) or k in own]
    operations = sorted({name for k in unseen for name in [*backwards[k].unseen, *own.get(k, ())]})
    return Readings([way for way in alternatives if way], unseen, operations, uncounted)


def _each_named(terms: list[Term]) -> list[Term]:
    """The terms with names of their own; several losses at one line would have the same."""
    seen: Counter[str] = Counter()
    found = []
    for term in terms:
        seen[term.name] += 1
        found.append(replace(term, name=f"{term.name} (call {seen[term.name]})") if seen[term.name] > 1 else term)
    return found


def hidden_losses(backwards: Sequence[Backward]) -> list[str]:
    """Notes on the losses whose weights were read from a gradient, and not where a loss function was called."""
    losses = [loss for backward in backwards for loss in backward.losses]
    hidden = {(loss["hidden_in"], loss["site"], "hidden" in loss["function"]) for loss in losses if "hidden_in" in loss}
    apart = {(loss["site"], loss.get("unit", "unit")) for loss in losses if loss["function"] == APART}
    notes = [weights_from_logits(*found) for found in sorted(hidden)]
    return notes + [weights_apart(*found) for found in sorted(apart)]


def _weighed_by_the_script(groups: Groups) -> dict[int, set[str]]:
    """Contributions whose log-probabilities the script weighs by more than their number, as by a reward.

    Takes them out of the groups. What a unit weighs was read from the gradient, and may be meant to differ: it is a
    fault only where it goes by the counts, so that those of equal weights sum up to the same on average.
    """
    found: dict[int, set[str]] = {}
    for key in [key for key in groups if key[0] in _BY_HAND]:
        term = _term(groups[key], 1 + max(groups[key]), False)
        live = np.flatnonzero(term.counts_K > 0)
        order = live[np.argsort(term.unit_weights_K[live])]
        weights = term.unit_weights_K[order]
        classes = np.split(term.totals_K[order], 1 + np.flatnonzero(weights[1:] > (1 + _ALIKE) * weights[:-1]))
        means = [totals.mean() for totals in classes if len(totals)]
        if means and max(means) > (1 + _ALIKE) * min(means):
            for k in groups.pop(key):
                found.setdefault(k, set()).add(key[0])
    return found


def _told_apart(backward: Backward) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The losses of a backward with their places; another loss over the same targets at one place is another term."""
    before: Counter[tuple[Any, Any]] = Counter()
    chunks = _chunked(backward)
    for loss in backward.losses:
        place = loss.get("place", loss["site"])
        same = (place, loss.get("fingerprint"))
        # chunks that count no unit have the same targets, and are no term
        again = before[same] if "fingerprint" in loss and loss["count"] and place not in chunks else 0
        before[same] += 1
        yield (place, again), loss
    if backward.counts and not any(loss["function"] == "count" for loss in backward.losses):
        said = {"function": "count", "reduction": "mean", "count": sum(backward.counts), "scale": None}
        yield ("", 0), {**said, "site": "failuremap.count"}


def _chunked(backward: Backward) -> set[Any]:
    """Places that a loss is called at for one part of the targets after another, where some are the same by chance."""
    targets: dict[Any, Counter[Any]] = {}
    for loss in backward.losses:
        if "fingerprint" in loss:
            targets.setdefault(loss.get("place", loss["site"]), Counter())[loss["fingerprint"]] += 1
    return {place for place, times in targets.items() if len(times) > 2 and min(times.values()) < max(times.values())}


def _has_unseen(backward: Backward) -> bool:
    marked = bool(backward.counts) or any(loss["function"] in ("count", "unit_losses") for loss in backward.losses)
    if marked:
        return False
    return bool(backward.unseen) or (not backward.losses and backward.via != "backward")


def _merged(groups: Groups) -> list[dict[int, list[dict[str, Any]]]]:
    """The same function called at several lines, never twice in a backward: micro-batches of one term."""
    merged: Groups = {}
    for (function, classes, site), group in groups.items():
        key = (function, classes)
        if key in merged and not set(merged[key]) & set(group):
            merged[key] |= group
        else:
            merged[key if key not in merged else (function, classes, site)] = dict(group)
    return list(merged.values())


def _uncounted(groups: Groups, unit: str | None) -> str:
    listed = [loss for group in groups.values() for losses in group.values() for loss in losses]
    whole = next((loss for loss in listed if "unit" in loss), None)
    if unit == "token" and whole is not None:
        return tokens_in_rows(whole["site"], whole["unit"])
    flat = [loss for loss in listed if "rows" not in loss]
    if unit != "sequence" or not flat:
        return ""
    return (
        f"sequences cannot be counted at {flat[0]['function']} ({flat[0]['site']}): its targets came as one flat row. "
        "Say their number with failuremap.count(sequences, loss), or audit with --unit token"
    )


def _term(group: dict[int, list[dict[str, Any]]], size: int, rows: bool) -> Term:
    idle = _multiplied_by_zero(group)
    counts, totals, has, row_counts = np.zeros(size), np.zeros(size), np.zeros(size, dtype=bool), np.zeros(size)
    spread, known, in_rows, elements, names = 1.0, True, True, 0.0, set()
    lengths = {_row_length(loss) for losses in group.values() for loss in losses if loss["count"]}
    for k, losses in group.items():
        unit_weights = []
        for loss in losses:
            count, total, inner = _unit_count(loss, rows), _total(loss), _spread(loss, rows)
            counts[k] += 0.0 if k in idle else count
            totals[k] += total
            has[k] = True
            known &= loss["scale"] is not None
            in_rows &= "rows" in loss
            row_counts[k] += float(loss.get("rows", 0))
            spread = max(spread, inner)
            elements += float(loss.get("elements", loss["count"]))
            names.add(
                f"{loss['function']}({loss['reduction']}) at {loss['site']}"
                if loss["scale"] is not None
                else loss["site"]
            )
            unit_weights += [total / count] if count > 0 and total else []
        if unit_weights and min(unit_weights) > 0:
            spread = max(spread, max(unit_weights) / min(unit_weights))
    return Term(
        ", ".join(sorted(names)),
        counts,
        totals,
        has,
        spread,
        known,
        elements,
        row_counts if in_rows and not rows else None,
        lengths.pop() if len(lengths) == 1 else 0.0,
        next((loss["hidden_in"] for losses in group.values() for loss in losses if hides_a_factor(loss)), ""),
        all(is_unmoved(loss) for losses in group.values() for loss in losses),
        any(loss["function"] == APART for losses in group.values() for loss in losses),
        multiplied_by(loss for losses in group.values() for loss in losses),
    )


def _row_length(loss: dict[str, Any]) -> float:
    if not loss.get("rows") or "weight_sum" in loss or loss["reduction"] == "mean":
        return 0.0
    return _unit_count(loss, False) / float(loss["rows"])


def _multiplied_by_zero(group: dict[int, list[dict[str, Any]]]) -> set[int]:
    """Contributions all of whose losses came to nothing where others did not: dummies, whose units are none."""
    none = {
        k for k, found in group.items() if all(loss["reduction"] != "none" and loss["scale"] == 0 for loss in found)
    }
    return none if len(none) < len(group) else set()


def _unit_count(loss: dict[str, Any], rows: bool) -> float:
    if rows and "rows" in loss and loss["count"]:
        return float(loss["rows"])
    if "weight_sum" in loss and not rows:
        return float(loss["weight_sum"])
    return float(loss["nonzero"] if loss["reduction"] == "none" else loss["count"])


def _total(loss: dict[str, Any]) -> float:
    """W: the sum of the derivatives with respect to the units' losses."""
    if loss["scale"] is None:
        return 1.0
    if not loss["nonzero"] if loss["reduction"] == "none" else not loss["count"]:
        return 0.0
    scale = float(loss["scale"])
    if loss["reduction"] == "sum":
        return scale * float(loss.get("weight_sum", loss["count"]))
    return scale


def _spread(loss: dict[str, Any], rows: bool) -> float:
    smallest, largest = ("row_smallest", "row_largest") if rows and "row_smallest" in loss else ("smallest", "largest")
    low, high = loss.get(smallest), loss.get(largest)
    if not low or not high or not np.isfinite(low):
        return 1.0
    return float(high) / float(low)
