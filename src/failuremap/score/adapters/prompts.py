"""What a model is asked, and what in its answer is the candidate: the same for every harness."""

from __future__ import annotations

import re
from dataclasses import dataclass

from failuremap.catalogue.exchange.cases import released_cases
from failuremap.catalogue.exchange.tiers import canary_line
from failuremap.catalogue.shelf import case_id
from failuremap.score.forms import candidate_of
from failuremap.score.suite import Suite, families

_BLOCK = re.compile(r"^```[^\S\n]*([\w+-]*)[^\n]*\n(.*?)^```[^\S\n]*$", re.MULTILINE | re.DOTALL)
_TASK = (
    "Write a Python function `solve` that keeps this contract. It takes one argument, `{signature}`, and leaves it as "
    "it was. Standard library only."
)
_PYTHON = {"python", "py", "python3", ""}


@dataclass(frozen=True)
class Question:
    """One family as a question.

    Attributes:
        id: What the answer is judged as: FM-number, all variants of the family.
        family: Slug of the mechanism.
        group: Its evaluation group, by which errors are clustered.
        prompt: The text.
    """

    id: str
    family: str
    group: str
    prompt: str


def questions(suite: Suite) -> list[Question]:
    """Writes the questions of a suite.

    `open` shows the contract and the two forms that fail, `member` the published checks besides, and `sealed` the
    contract alone, since nothing else of a family that is held back is published.
    """
    known = families(suite)
    cases = {case.family: case for case in released_cases([case_id(entry, 1) for entry in known.values()])}
    found = []
    for slug, entry in known.items():
        contract = cases[slug].contract
        parts = [
            _TASK.format(signature=contract.signature),
            f"Contract: {contract.text}",
            f"Domain: {contract.domain}",
            "\n".join(f"- {clause.text}" for clause in contract.clauses),
        ]
        if suite != "sealed":
            parts += _code("This form fails", candidate_of(entry, "broken"))
            parts += _code("This repair fails as well", candidate_of(entry, "attempt"))
        if suite == "member":
            harness = cases[slug].harness
            assert harness is not None
            parts += _code("The published checks, for N of 1 to 5", harness.source)
        parts += ["Answer with the whole file in one ```python block, and nothing else.", canary_line(suite)]
        found.append(Question(case_id(entry, 1).rpartition("-")[0], slug, entry.group, "\n\n".join(parts)))
    return found


def candidate_in(answer: str) -> str:
    """Returns the candidate in a model's answer: its last Python block, or the whole of it where it has no block.

    Example:
        >>> candidate_in("Here it is:\\n```python\\ndef solve(rows): return []\\n```\\nDone.")
        'def solve(rows): return []\\n'
    """
    blocks = [body for language, body in _BLOCK.findall(answer) if language.lower() in _PYTHON]
    return blocks[-1] if blocks else answer


def _code(label: str, code: str) -> list[str]:
    return [f"{label}:\n\n```python\n{code.rstrip()}\n```"]
