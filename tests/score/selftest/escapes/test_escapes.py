"""No candidate gets out of a sound box; without a box, most of the same candidates do, and each is seen to."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from failuremap.score.box import Answer, syscalls
from failuremap.score.limits import Usage
from failuremap.score.selftest.escapes import ESCAPES, attempt
from failuremap.score.selftest.escapes.host import Host
from failuremap.score.stopped import Stopped

TAKE_SECONDS = {
    "run for ever",
    "run for ever while being loaded",
    "run for ever in C",
    "wait for ever",
    "use up the stack",
    "print without end",
    "stop the group",
    "outlive the box in a child",
    "leave the caller's group and end the answers",
}
BY_NAME = {each.name: each for each in ESCAPES}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in TAKE_SECONDS else ()) for name in BY_NAME]


@pytest.mark.parametrize("name", NAMES)
def test_a_sound_box_keeps_it_in(sound, name):
    assert attempt(BY_NAME[name], sound).got_out is None


def test_there_are_more_than_a_hundred_and_no_two_are_the_same():
    assert len(ESCAPES) >= 100
    assert len(BY_NAME) == len({each.source for each in ESCAPES}) == len(ESCAPES)


def test_the_page_on_the_box_counts_them_right():
    page = (Path(__file__).parents[4] / "docs" / "box.md").read_text(encoding="utf-8")

    assert f"{len(ESCAPES)} candidates try to get out" in page
    assert f"of the {sum(each.tried_without_box for each in ESCAPES)} that can be tried" in page
    assert f"allows {len(syscalls.ALLOWED.split())} calls" in page


def test_those_that_take_seconds_are_named_as_they_are():
    assert BY_NAME.keys() >= TAKE_SECONDS


def test_every_escape_is_a_program():
    for each in ESCAPES:
        compile(each.source, each.name, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("name", BY_NAME)
def test_box_2_keeps_it_in_without_a_cgroup(sound, name):
    assert attempt(BY_NAME[name], "box-2").got_out is None


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("write a file of the host", "a file of the host was written or removed"),
        ("remove a file of the host", "a file of the host was written or removed"),
        ("read a file of the host", "the secret in the judge's file came out"),
        ("connect to a socket without a path", "a socket of the host was reached"),
        ("kill a process of the host", "a process of the host was ended"),
        ("fork", "it says so"),
    ],
)
def test_without_a_box_it_gets_out_and_is_seen(name, how):
    assert attempt(BY_NAME[name], "none").got_out == how


class Planted:
    """A box that lets something through."""

    pid = 2**22

    def __init__(self, value: object = None, cpu_s: float = 0.0, blamed: bool = False) -> None:
        self.value, self.blamed, self.usage = value, blamed, Usage(cpu_s, 0.0, 0)

    def call(self, argument: object) -> Answer:
        if self.blamed:
            raise Stopped("judge-error", "the judge")
        return Answer(self.value, argument)

    def call_again(self) -> Answer:
        return Answer(self.value, None)

    def __enter__(self) -> Planted:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Agreeing(list):
    pass


@pytest.mark.parametrize(
    ("box", "how"),
    [
        (Planted(), None),
        (Planted(Agreeing()), "its answer has behaviour of its own"),
        (Planted(["OUT"]), "it says so"),
        (Planted(cpu_s=9.0), "it ran for 9.0 s"),
        (Planted(blamed=True), "the judge takes the blame"),
    ],
)
def test_what_a_leaking_box_lets_through_is_seen(box, how, monkeypatch):
    monkeypatch.setattr(sys.modules[attempt.__module__], "open_box", lambda source, limits, level: box)

    assert attempt(ESCAPES[0], "box-3").got_out == how


def test_a_secret_in_a_sentence_of_the_box_is_seen():
    with Host() as host:
        assert host.secret_in(f"crashed: {host.secrets['seen']}") == "the secret in the judge's seen came out"
        assert host.secret_in(f"crashed: {host.secrets['seen']}", but="seen") is None


@pytest.mark.slow
def test_what_outlives_its_box_is_seen():
    # the child may not have got as far as that when a busy machine looks for it
    told = (attempt(BY_NAME["outlive the box in a child"], "none").got_out or "" for _ in range(5))
    assert any("of it still runs" in each for each in told)


@pytest.mark.slow
def test_most_escapes_get_out_where_there_is_no_box():
    tried = [each for each in ESCAPES if each.tried_without_box and each.name not in TAKE_SECONDS]

    out = [each.name for each in tried if attempt(each, "none").got_out]

    assert len(out) >= (40 if os.geteuid() == 0 else 30)
