"""What an audit says: the verdict, as data. Reports draw it, JSON carries it, nothing here computes.

The JSON form of `Verdict` is the published schema (`docs/verdict.schema.json`).
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA_VERSION = 1

Outcome = Literal["right", "wrong", "cannot tell", "not measured", "script failed"]

EXIT_CODES: dict[Outcome, int] = {"right": 0, "wrong": 1, "cannot tell": 3, "not measured": 3, "script failed": 4}


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Cell(_Record):
    """One contribution: what a rank's micro-batch was worth in the update."""

    rank: int
    micro_batch: int
    count: float | None = Field(
        default=None, description="Units (tokens, examples, sequences) behind the contribution; null: not seen."
    )
    coefficient: float | None = Field(
        default=None, description="c_k: the factor of this gradient in the update; null: not measured."
    )
    coefficient_error: float | None = Field(default=None, description="Standard error of the coefficient.")
    loss_weight: float | None = Field(
        default=None, description="d(local loss) / d(loss of one unit), as it reached the loss function."
    )
    effective_weight: float | None = Field(
        default=None, description="coefficient x loss weight: what one unit weighs in the update."
    )
    share: float | None = Field(
        default=None, description="Effective weight as a multiple of the fair one, 1/N; 1 is right."
    )


class Candidate(_Record):
    """A mechanism of the catalogue that leaves exactly the evidence that was found."""

    slug: str
    title: str
    separated_by: str = Field(default="", description="What would tell it from the other candidates.")


class Finding(_Record):
    """One thing that is wrong, on which parameters and since which step."""

    sentence: str
    candidates: list[Candidate] = Field(description="All mechanisms that fit; empty: a wrong rule without a name.")
    followed: str = Field(description="The rule that the job follows, in words.")
    promised: str = Field(description="The rule that the job should follow, in words.")
    steps: list[int] = Field(description="Optimizer steps (from 1) at which it was seen.")
    parameters: list[str] = Field(description="Names of the parameters concerned, at most 20.")
    parameter_count: int
    parameters_read: int | None = Field(
        default=None, description="How many parameters were read at these steps; null: all, at one of them at least."
    )
    ratio: float | None = Field(default=None, description="Weight of the heaviest unit over that of the lightest.")
    total_weight: float | None = Field(default=None, description="Sum of all effective weights; a mean has 1.")
    term: str | None = Field(default=None, description="The loss term concerned, as function and line.")
    effect: float | None = Field(
        default=None, description="|update - right update| / |right update|, where it can be computed."
    )
    cells: list[Cell] = []
    cells_step: int | None = Field(
        default=None, description="The step that the cells show: the one with the worst ratio."
    )
    repair: str = ""


class Evidence(_Record):
    """What the verdict rests on."""

    first_step: int | None = None
    last_step: int | None = None
    step_count: int = 0
    steps_in_full: int = Field(default=0, description="Steps of which all parameters were read; of the others a few.")
    rank_count: int = 0
    micro_batch_count: int = Field(default=0, description="Micro-batches of the usual window.")
    parameter_count: int = Field(default=0, description="Parameters whose update was explained or judged.")
    parameter_total: int = Field(default=0, description="Parameters that an optimizer steps on.")
    residual: float | None = Field(
        default=None, description="|update - sum c_k g_k| / |update|, the worst judged step."
    )
    coefficient_error: float | None = Field(
        default=None, description="The largest relative standard error of a coefficient."
    )
    losses_seen: int = Field(default=0, description="Backward passes whose loss was seen.")
    losses_total: int = Field(default=0, description="Backward passes that reached an optimizer step.")
    loss_sites: list[str] = Field(default=[], description="Loss functions seen: 'cross_entropy(mean) at train.py:41'.")


class Verdict(_Record):
    """The result of an audit: a pure function of the trace."""

    schema_version: int = SCHEMA_VERSION
    outcome: Outcome
    sentence: str = Field(description="The one line to read first.")
    unit: str = Field(default="token", description="What one unit is called: token, example or sequence.")
    promise: Literal["mean", "sum"] = "mean"
    findings: list[Finding] = Field(default=[], description="The first is the one of the sentence.")
    reasons: list[str] = Field(
        default=[], description="Why it cannot be told or was not measured, and what would settle it."
    )
    notes: list[str] = Field(default=[], description="What a reader should know and what accuses nobody.")
    cells: list[Cell] = Field(default=[], description="Ranks x micro-batches of a representative step.")
    cells_step: int | None = Field(default=None, description="The step that the cells show.")
    evidence: Evidence = Evidence()
    script: str = Field(default="", description="The command that was audited.")
    script_exit_code: int | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of `failuremap audit`: 0 right, 1 wrong, 3 cannot tell or not measured, 4 script failed."""
        return EXIT_CODES[self.outcome]
