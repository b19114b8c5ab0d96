"""A box opens at the highest level there is, and at no lower one than was asked for."""

from __future__ import annotations

import pytest

from failuremap.errors import InvalidArgument
from failuremap.score.box import (
    LEVELS,
    SOUND_LEVELS,
    bubblewrap,
    cgroup,
    open_box,
    opening,
    seccomp,
    sound_level,
    unshare,
)
from failuremap.score.limits import Limits
from failuremap.score.stopped import Stopped

ECHO = b"def solve(rows): return rows"


def test_the_levels_are_told_highest_first_and_two_are_sound():
    assert LEVELS == ("box-3", "box-2", "box-1", "none")
    assert SOUND_LEVELS == ("box-3", "box-2")


@pytest.mark.parametrize("level", LEVELS)
def test_every_level_answers_here_or_says_what_it_lacks(level):
    try:
        box = open_box(ECHO, Limits(), level=level)
    except Stopped as stopped:
        said = stopped.outcome, stopped.reason.partition("box-")[0]
        box = None
    if box is None:
        assert said == ("judge-error", "no box opens here that is sound enough (")
        return
    with box:
        assert (box.level, box.call([1]).value) == (level, [1])


def test_without_a_level_the_highest_sound_one_opens(sound):
    with open_box(ECHO, Limits()) as box:
        assert box.level == sound == sound_level()


def test_a_level_that_does_not_exist_is_named():
    with pytest.raises(InvalidArgument, match=r"level='box-9' is none of box-3, box-2, box-1, none"):
        open_box(ECHO, Limits(), level="box-9")


def test_without_bubblewrap_no_sound_box_opens_and_the_reason_says_what_to_install(monkeypatch):
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: None)

    with pytest.raises(Stopped) as caught:
        open_box(ECHO, Limits())

    assert caught.value.outcome == "judge-error"
    assert caught.value.reason == (
        "no box opens here that is sound enough (box-3: bubblewrap is absent; install it: apt install bubblewrap; "
        "box-2: bubblewrap is absent; install it: apt install bubblewrap)"
    )


def test_where_no_cgroup_can_be_made_the_second_level_opens(sound, monkeypatch):
    monkeypatch.setattr(cgroup, "make", lambda limits: None)

    with open_box(ECHO, Limits()) as box:
        assert box.level == "box-2"
    with pytest.raises(Stopped, match="box-3: this user may make no cgroup that limits memory and processes"):
        open_box(ECHO, Limits(), level="box-3")


def test_a_box_that_does_not_start_says_what_bubblewrap_said(sound, monkeypatch):
    command = bubblewrap.command
    monkeypatch.setattr(
        bubblewrap,
        "command",
        lambda limits, fd: [command(limits, fd)[0], "--from-the-future", *command(limits, fd)[1:]],
    )

    with pytest.raises(Stopped, match=r"box-2: bwrap: Unknown option --from-the-future\)$") as caught:
        open_box(ECHO, Limits(), level="box-2")
    assert caught.value.outcome == "judge-error"


def test_a_trusted_candidate_runs_at_the_highest_level_that_is_left(monkeypatch):
    monkeypatch.setattr(bubblewrap, "missing", lambda: "bubblewrap is absent")
    monkeypatch.setattr(unshare, "missing", lambda: "unshare is absent")

    with open_box(ECHO, Limits(), trust_candidate=True) as box:
        assert (box.level, box.call(1).value) == ("none", 1)


def test_where_system_calls_cannot_be_filtered_no_level_is_sound(monkeypatch):
    monkeypatch.setattr(seccomp.platform, "machine", lambda: "riscv64")

    with pytest.raises(Stopped, match="system calls can be filtered on Linux on x86_64 and aarch64 only"):
        open_box(ECHO, Limits())


def test_an_interpreter_that_this_user_cannot_read_is_named(monkeypatch):
    monkeypatch.setattr(opening.interpreter.os, "access", lambda path, mode: False)

    assert "cannot be read by uid=" in opening.interpreter.unreadable()
