"""A missing tool skips a test on a person's machine and fails it in CI."""

from __future__ import annotations

import pytest

ABSENT = "failuremap-no-such-tool"


def test_a_tool_that_is_there_is_found(require):
    assert require(ABSENT, "make").endswith("make")


def test_a_missing_tool_skips(require, monkeypatch):
    monkeypatch.delenv("FAILUREMAP_REQUIRE", raising=False)

    with pytest.raises(pytest.skip.Exception, match=f"{ABSENT} is absent; install one of: {ABSENT}"):
        require(ABSENT)


@pytest.mark.parametrize("demanded", ["all", f"other,{ABSENT}"])
def test_a_missing_tool_fails_where_it_is_demanded(require, monkeypatch, demanded):
    monkeypatch.setenv("FAILUREMAP_REQUIRE", demanded)

    with pytest.raises(pytest.fail.Exception, match=f"FAILUREMAP_REQUIRE={demanded} demands it"):
        require(ABSENT)


def test_a_missing_module_fails_where_it_is_demanded(require_module, monkeypatch):
    monkeypatch.setenv("FAILUREMAP_REQUIRE", "all")

    with pytest.raises(pytest.fail.Exception, match="no_such_module is absent"):
        require_module("no_such_module")
