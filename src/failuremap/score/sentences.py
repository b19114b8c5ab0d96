"""What a verdict says in one sentence."""

from __future__ import annotations

from failuremap.score.verdict import Counterexample


def accepted(public_count: int, held_back_count: int) -> str:
    """Says that all is right."""
    return f"It keeps the contract on all inputs: {public_count} published and {held_back_count} held back."


def wrong(clauses: dict[str, bool | None], shown: Counterexample | None, *, leaves_traces: bool) -> str:
    """Says which clauses are broken, and where that can be seen.

    Args:
        clauses: What held.
        shown: A public input with a wrong answer.
        leaves_traces: Some call on a public input changed it, or what the next call gave.
    """
    broken = ", ".join(name for name, held in clauses.items() if held is False)
    if shown:
        example = f"solve({shown.given}) gives {shown.actual}, and {shown.expected} is right ({shown.fixture})"
    elif leaves_traces:
        example = (
            "a call changes what it was given or has answered, or a second call on the same object gives another answer"
        )
    else:
        example = "on the published inputs it is right, on others it is not"
    return f"It breaks the contract: {broken}; {example}."


def judge_fault(fault: Exception) -> str:
    """Says that the judge failed, and that it is not the candidate's fault."""
    return f"The judge failed, which says nothing of the candidate: {fault}; report it with the case and the candidate."
