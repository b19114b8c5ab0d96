"""Who is accepted: every mechanism's repair and every honest one; and nobody else, under any key."""

from __future__ import annotations

import pytest

from failuremap.catalogue import Mechanism, mechanism, mechanisms
from failuremap.score.forms import candidate_of
from score.candidates import Candidate, candidates
from score.stand_in import outcome

KEYS = [bytes([number]) * 32 for number in range(12)]
ENTRIES = [entry for entry in mechanisms().values() if entry.stages]
SOME_KEYS = KEYS[1:4]
WRONG, HONEST = candidates("wrong"), candidates("honest")
every_entry = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.slug)


def outcomes(source: str, entry: Mechanism, keys: list[bytes]) -> set[str]:
    return {outcome(source, entry, key) for key in keys}


@every_entry
def test_a_repair_is_accepted_and_the_broken_forms_are_not(entry: Mechanism):
    assert outcome(candidate_of(entry), entry, KEYS[0]) == "accepted"
    assert outcome(candidate_of(entry, "broken"), entry, KEYS[0]) != "accepted"
    assert outcome(candidate_of(entry, "attempt"), entry, KEYS[0]) != "accepted"


@pytest.mark.slow
@every_entry
def test_the_key_changes_no_outcome(entry: Mechanism):
    assert outcomes(candidate_of(entry), entry, SOME_KEYS) == {"accepted"}
    assert "accepted" not in outcomes(candidate_of(entry, "broken"), entry, SOME_KEYS)
    assert "accepted" not in outcomes(candidate_of(entry, "attempt"), entry, SOME_KEYS)


@pytest.mark.parametrize("candidate", WRONG, ids=str)
def test_a_wrong_candidate_is_refused(candidate: Candidate):
    assert outcome(candidate.source, mechanism(candidate.slug), KEYS[0]) != "accepted"


@pytest.mark.slow
@pytest.mark.parametrize("candidate", WRONG, ids=str)
def test_a_wrong_candidate_is_refused_under_other_keys(candidate: Candidate):
    assert "accepted" not in outcomes(candidate.source, mechanism(candidate.slug), SOME_KEYS)


@pytest.mark.parametrize("candidate", HONEST, ids=str)
def test_an_honest_repair_is_accepted(candidate: Candidate):
    assert outcome(candidate.source, mechanism(candidate.slug), KEYS[1]) == "accepted"


@pytest.mark.slow
@pytest.mark.parametrize("candidate", HONEST, ids=str)
def test_an_honest_repair_is_accepted_under_every_key(candidate: Candidate):
    assert outcomes(candidate.source, mechanism(candidate.slug), KEYS) == {"accepted"}


def test_there_are_as_many_of_them_as_the_claims_say():
    assert len(WRONG) >= 60
    assert len({candidate.slug for candidate in WRONG}) >= 10
    assert len(HONEST) >= 15


def test_the_published_fixtures_alone_let_wrong_candidates_through():
    from failuremap.score.fixtures import public

    fooled = [
        candidate.name
        for candidate in WRONG
        if outcome(candidate.source, mechanism(candidate.slug), b"", public(mechanism(candidate.slug))) == "accepted"
    ]

    assert len(fooled) >= 10
