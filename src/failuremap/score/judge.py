"""A candidate and a case -> a verdict."""

from __future__ import annotations

import hashlib
import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from failuremap.catalogue.mechanism import VARIANTS, Mechanism
from failuremap.catalogue.shelf import case_id, case_of
from failuremap.errors import InvalidArgument
from failuremap.score import sentences
from failuremap.score.box import Box, open_box
from failuremap.score.candidate import read_candidate
from failuremap.score.examination import Examination, JudgeFault, Seen, numerics, right_answer
from failuremap.score.fixtures import GENERATOR_VERSION, Fixture, clauses_of, held_back, public
from failuremap.score.limits import Limits
from failuremap.score.oracle import Answer
from failuremap.score.shrink import counterexample, unanswered
from failuremap.score.stopped import Stopped
from failuremap.score.verdict import Counterexample, Counts, Outcome, Resources, Verdict
from failuremap.score.wire import text_of

KEY_BYTES = 32
_LEAST_KEY_BYTES = 16


def judge(
    source: bytes | Path,
    case: str,
    *,
    key: bytes | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    trust_candidate: bool = False,
    reveal_key: bool = False,
) -> Verdict:
    """Judges one candidate: it runs in a box, its answers are held to exact ones outside.

    Args:
        source: The candidate's bytes, or the path of its file: UTF-8, defines `solve`.
        case: Id, alias or slug of the case.
        key: What the held-back fixtures are drawn from; without one, a new secret.
        limits: What the candidate may use.
        trust_candidate: Run it without a box where no sound one opens.
        reveal_key: Write the key into the verdict, so that anyone can draw the same fixtures again.

    Raises:
        InvalidArgument: There is no such case, it has no code, or the key is too short.

    Example:
        >>> judge(b"def solve(parts): return [sum(c) for c in zip(*parts)]", "FA-99246").outcome
        'accepted'
    """
    entry, variant = case_of(case)
    if entry.stages is None:
        raise InvalidArgument(f"case={case!r} has no code, so there is no repair of it to judge.")
    key = key or secrets.token_bytes(KEY_BYTES)
    if len(key) < _LEAST_KEY_BYTES:
        raise InvalidArgument(f"key has {len(key)} bytes; a key that nobody guesses has {_LEAST_KEY_BYTES} or more.")
    trial = _Trial(entry, _name_of(entry, variant), (variant,) if variant else VARIANTS, key)
    outcome, sentence = trial.run(source, limits, trust_candidate)
    return trial.verdict(outcome, sentence, key.hex() if reveal_key else None)


@dataclass
class _Trial:
    """What is known of a candidate while it is judged."""

    entry: Mechanism
    case: str
    variants: tuple[int, ...]
    key: bytes
    sha256: str = ""
    level: str = "none"
    usage: Resources = field(default_factory=Resources)
    open_ones: list[Fixture] = field(default_factory=list)
    drawn_ones: list[Fixture] = field(default_factory=list)
    clauses: dict[str, bool | None] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    shown: Counterexample | None = None

    def run(self, source: bytes | Path, limits: Limits, trust_candidate: bool) -> tuple[Outcome, str]:
        """Returns the outcome, and a sentence on it."""
        self.clauses = dict.fromkeys(clauses_of(self.entry), None)
        try:
            candidate = read_candidate(source, limits)
            self.sha256 = hashlib.sha256(candidate).hexdigest()
            with ThreadPoolExecutor(1) as beside:
                answers = beside.submit(self._prepare)  # while the box starts
                with open_box(candidate, limits, trust_candidate=trust_candidate) as box:
                    self._examine(box, answers.result())
        except Stopped as stopped:
            return stopped.outcome, stopped.reason
        except JudgeFault as fault:
            return "judge-error", sentences.judge_fault(fault)
        wrong = [seen for seen in self.seen if not seen.passed]
        if not wrong:
            return "accepted", sentences.accepted(len(self.open_ones), len(self.drawn_ones))
        leaves_traces = not all(seen.pure for seen in self.seen[: len(self.open_ones)])
        return "wrong", sentences.wrong(self.clauses, self.shown, leaves_traces=leaves_traces)

    def _prepare(self) -> list[Answer]:
        """Draws the fixtures, and returns what is right for each."""
        try:
            self.open_ones = public(self.entry, self.variants)
            self.drawn_ones = held_back(self.entry, self.case, self.key, self.sha256)
        except Exception as error:
            raise JudgeFault(f"{type(error).__name__} while the fixtures of {self.entry.slug} were drawn") from error
        known: dict[bytes, Answer] = {}  # some checks give the same input under every N
        texts = [text_of(fixture.given) for fixture in (*self.open_ones, *self.drawn_ones)]
        for text, fixture in zip(texts, (*self.open_ones, *self.drawn_ones), strict=True):
            if text not in known:
                known[text] = right_answer(self.entry, fixture)
        return [known[text] for text in texts]

    def _examine(self, box: Box, answers: list[Answer]) -> None:
        self.level = box.level
        fixtures = [*self.open_ones, *self.drawn_ones]
        examination = Examination(self.entry, box, self.seen)
        try:
            examination.put(fixtures, answers)
        except Stopped as stopped:
            if examination.failed_at in self.open_ones:
                self.shown = unanswered(examination.failed_at, answers[len(self.seen)], stopped.reason)
            raise
        finally:
            self.clauses = examination.clauses(fixtures[len(self.seen) :])
            used = box.usage
            self.usage = Resources(cpu_s=used.cpu_s, wall_s=used.wall_s, memory_bytes=used.memory_bytes)
        wrong = [seen for seen in self.seen[: len(self.open_ones)] if not seen.right]
        self.shown = counterexample(self.entry, box, wrong) if wrong else None

    def verdict(self, outcome: Outcome, sentence: str, key: str | None) -> Verdict:
        """Puts all of it down."""
        open_count = len(self.open_ones)
        drawn = self.seen[open_count:]
        counts = Counts(
            public_passed=sum(seen.passed for seen in self.seen[:open_count]),
            public_total=open_count,
            held_back_passed=sum(seen.passed for seen in drawn),
            held_back_total=len(self.drawn_ones),
        )
        return Verdict(
            outcome=outcome,
            sentence=sentence,
            case=self.case,
            mechanism=self.entry.slug,
            candidate_sha256=self.sha256,
            box_level=self.level,
            clauses=self.clauses,
            counts=counts,
            usage=self.usage,
            counterexample=self.shown,
            numerics=numerics(drawn) if outcome == "accepted" else None,
            generator_version=GENERATOR_VERSION,
            key_commitment=hashlib.sha256(self.key).hexdigest(),
            key=key,
        )


def _name_of(entry: Mechanism, variant: int | None) -> str:
    return case_id(entry, variant) if variant else f"FM-{entry.number:03d}"
