"""What a verdict says in one sentence."""

from __future__ import annotations

from failuremap.score.verdict import Counterexample


def accepted(public_count: int, held_back_count: int) -> str:
    """Says that all is right."""
    return f"It keeps the contract on all inputs: {public_count} published and {held_back_count} held back."


def wrong(clauses: dict[str, bool | None], shown: Counterexample | None) -> str:
    """Says which clauses are broken, and where that can be seen."""
    broken = ", ".join(name for name, held in clauses.items() if held is False)
    if shown is None:
        return f"It breaks the contract, on held-back inputs alone: {broken}."
    return (
        f"It breaks the contract: {broken}; "
        f"solve({shown.given}) gives {shown.actual}, and {shown.expected} is right ({shown.fixture})."
    )


def judge_fault(fault: Exception) -> str:
    """Says that the judge failed, and that it is not the candidate's fault."""
    return f"The judge failed, which says nothing of the candidate: {fault}; report it with the case and the candidate."
