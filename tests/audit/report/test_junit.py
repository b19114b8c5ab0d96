"""JUnit XML: a reader of JUnit sees a right job pass, a wrong one fail, and anything else as an error."""

from __future__ import annotations

import pytest
from junitparser import Error, Failure, JUnitXml

from audit.report import samples
from failuremap.audit.model import Verdict
from failuremap.audit.report.junit import junit


def read(verdict):
    """The suites, as a reader of JUnit has them."""
    return JUnitXml.fromstring(junit(verdict).encode())


def test_a_right_job_is_one_case_that_passes():
    found = read(samples.RIGHT)

    (suite,) = list(found)
    (case,) = list(suite)
    assert (suite.tests, suite.failures, suite.errors) == (1, 0, 0)
    assert (case.is_passed, case.name) == (True, "the update is what the job promises")


def test_each_finding_is_a_case_that_fails_with_its_sentence():
    (suite,) = list(read(samples.SEVERAL_FINDINGS))

    sentences = [finding.sentence for finding in samples.SEVERAL_FINDINGS.findings]
    assert [case.result[0].message for case in suite] == sentences
    assert all(isinstance(case.result[0], Failure) for case in suite)
    assert (suite.tests, suite.failures, suite.errors) == (len(sentences), len(sentences), 0)


@pytest.mark.parametrize("verdict", [samples.CANNOT_TELL, samples.NOT_MEASURED, samples.SCRIPT_FAILED])
def test_what_was_not_judged_is_an_error_and_never_passes(verdict):
    (suite,) = list(read(verdict))

    (case,) = list(suite)
    assert isinstance(case.result[0], Error)
    assert (suite.failures, suite.errors, case.is_passed) == (0, 1, False)


@pytest.mark.parametrize("name", [name for name, value in vars(samples).items() if isinstance(value, Verdict)])
def test_every_verdict_is_read_back_whatever_is_in_it(name):
    (suite,) = list(read(getattr(samples, name)))

    assert suite.tests == len(list(suite)) > 0
