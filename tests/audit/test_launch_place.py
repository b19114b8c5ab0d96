"""Ranks agree on a run without talking, and rank 0 learns how the others ended."""

from __future__ import annotations

import json
import threading
import time

import pytest

from failuremap.audit.launch import Ending, exits
from failuremap.audit.launch.exits import gather_exits, write_exit
from failuremap.audit.launch.place import find_place
from failuremap.errors import InvalidArgument

PAIR = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}


def test_without_a_launcher_it_is_one_rank_and_a_run_of_its_own():
    first, second = find_place({}), find_place({})

    assert (first.rank, first.world_size, first.speaks) == (0, 1, True)
    assert first.run_id != second.run_id


def test_the_ranks_of_a_run_agree_on_its_id():
    first, second = (find_place({**PAIR, "RANK": rank, "LOCAL_RANK": rank}) for rank in "01")

    assert first.run_id == second.run_id
    assert (first.speaks, second.speaks) == (True, False)


@pytest.mark.parametrize(
    "change", [{"MASTER_PORT": "29501"}, {"TORCHELASTIC_RESTART_COUNT": "1"}, {"TORCHELASTIC_RUN_ID": "x"}]
)
def test_another_run_has_another_id(change):
    assert find_place({**PAIR, "RANK": "0"}).run_id != find_place({**PAIR, **change, "RANK": "0"}).run_id


def test_on_several_machines_the_parent_process_does_not_count(monkeypatch):
    spread = {**PAIR, "LOCAL_WORLD_SIZE": "1", "RANK": "0"}
    here = find_place(spread).run_id, find_place({**PAIR, "RANK": "0"}).run_id

    monkeypatch.setattr("os.getppid", lambda: 1)

    assert find_place(spread).run_id == here[0]
    assert find_place({**PAIR, "RANK": "0"}).run_id != here[1]


def test_a_rank_that_is_no_number_is_refused():
    with pytest.raises(InvalidArgument) as raised:
        find_place({**PAIR, "RANK": "first"})

    assert str(raised.value) == "RANK='first' in the environment: a whole number, 0 or more; the launcher sets it."


def test_a_rank_beyond_the_world_is_refused():
    with pytest.raises(InvalidArgument) as raised:
        find_place({**PAIR, "RANK": "2"})

    assert str(raised.value) == "RANK=2 with WORLD_SIZE=2: a rank is below the number of ranks."


def test_rank_0_waits_for_the_others(tmp_path):
    write_exit(tmp_path, 0, Ending((0,)))
    later = threading.Timer(0.2, write_exit, [tmp_path, 1, Ending((0,))])
    later.start()

    ending, missing = gather_exits(tmp_path, 2, Ending((0,)))
    later.join()

    assert (ending.exit_codes, ending.failed, missing) == ((0, 0), False, [])


def test_the_rank_that_failed_first_is_named(tmp_path):
    write_exit(tmp_path, 2, Ending((3,), first_failed=0))
    time.sleep(0.01)
    write_exit(tmp_path, 1, Ending((1,), first_failed=0))
    write_exit(tmp_path, 0, Ending((-15,), interrupted=True))

    ending, _ = gather_exits(tmp_path, 3, Ending((-15,), interrupted=True))

    assert (ending.exit_codes, ending.sentence) == ((-15, 1, 3), "rank 2 exited with code 3")


def test_ranks_that_never_come_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(exits, "WAIT_SECONDS", 0.1)
    write_exit(tmp_path, 0, Ending((0,)))
    write_exit(tmp_path, 2, Ending((0,)))

    ending, missing = gather_exits(tmp_path, 4, Ending((0,)))

    assert (ending.failed, missing) == (False, [1, 3])


def test_after_a_failure_rank_0_does_not_wait_for_ranks_that_hang(tmp_path, monkeypatch):
    monkeypatch.setattr(exits, "FAILED_WAIT_SECONDS", 0.1)
    write_exit(tmp_path, 0, Ending((3,), first_failed=0))
    started = time.monotonic()

    ending, missing = gather_exits(tmp_path, 2, Ending((3,), first_failed=0))

    assert (ending.sentence, missing) == ("rank 0 exited with code 3", [1])
    assert time.monotonic() - started < 5


def test_a_word_for_a_folder_that_is_gone_is_not_needed(tmp_path):
    write_exit(tmp_path / "gone", 1, Ending((0,)))

    assert list(tmp_path.iterdir()) == []


def test_an_exit_file_says_how_a_rank_ended(tmp_path):
    write_exit(tmp_path, 1, Ending((-9,), timed_out=True))

    fields = json.loads((tmp_path / "rank1.exit").read_text())
    assert {name: fields[name] for name in ("exit_code", "timed_out", "interrupted")} == {
        "exit_code": -9,
        "timed_out": True,
        "interrupted": False,
    }
