"""The terminal page: one screen, in any width, on a pipe and without Unicode."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from audit.report.samples import (
    CANNOT_TELL,
    COUNTS_IGNORED,
    COUNTS_IGNORED_IN_WINDOW,
    EIGHT_BY_EIGHT,
    HOSTILE_NAMES,
    NOT_MEASURED,
    PART_OF_PARAMETERS,
    RIGHT,
    SAMPLES,
    SCRIPT_FAILED,
    SEVERAL_FINDINGS,
    SIXTY_FOUR_RANKS,
    TWO_CANDIDATES,
    grid,
)
from failuremap.audit.model import Evidence, Verdict
from failuremap.audit.report.picture import bar
from failuremap.audit.report.terminal import page, print_verdict

SCREEN = 24
TESTS = str(Path(__file__).parents[2])
AS_A_USER_PIPES_IT = "from audit.report.samples import SAMPLES as S\nfrom failuremap.audit.report.terminal import *\n"


def drawn(verdict: Verdict, width: int = 100) -> list[str]:
    """Return the lines of a page."""
    file = io.StringIO()
    Console(file=file, width=width).print(page(verdict))
    return file.getvalue().splitlines()


def piped(sample: str, **environment: str) -> bytes:
    """Print a sample in a process of its own whose standard output is a pipe."""
    code = f"{AS_A_USER_PIPES_IT}print_verdict(S[{sample!r}])"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{':'.join(sys.path)}:{TESTS}", "COLUMNS": "100", **environment},
        capture_output=True,
        check=True,
    ).stdout


SIZED_FOR_A_SCREEN = [
    "right",
    "counts_ignored",
    "counts_ignored_in_window",
    "two_candidates",
    "part_of_parameters",
    "several_findings",
    "cannot_tell",
    "not_measured",
    "script_failed",
    "eight_by_eight",
    "sixty_four_ranks",
    "many_by_many",
    "odd_numbers",
    "sum_promise",
]


@pytest.mark.parametrize("name", SIZED_FOR_A_SCREEN)
@pytest.mark.parametrize("width", [100, 120])
def test_a_page_fits_one_screen(name: str, width: int):
    assert len(drawn(SAMPLES[name], width)) <= SCREEN


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal_or_ends_in_blanks(name: str, width: int):
    lines = drawn(SAMPLES[name], width)

    assert max(map(cell_len, lines)) <= width
    assert lines == [line.rstrip() for line in lines]


@pytest.mark.parametrize("name", SAMPLES)
def test_no_page_begins_or_ends_with_an_empty_line(name: str):
    bare = SAMPLES[name].model_copy(update={"evidence": Evidence(), "findings": [], "notes": [], "script": ""})

    assert all(lines[0] and lines[-1] for lines in (drawn(SAMPLES[name]), drawn(bare)))


def test_the_page_of_counts_ignored():
    assert "\n".join(drawn(COUNTS_IGNORED)) == (
        "✗ wrong  A token on rank 1 weighs 2.51 times a token on rank 0.\n"
        "  steps 1-6 · 2 ranks x 1 micro-batch · 31 of 31 parameters · train.py --lr 3e-4 --layers 4\n"
        "  followed   mean of the ranks' means     promised   mean over all tokens\n"
        "  mechanism  replica means ignore their counts (failuremap show replica-means-ignore-counts)\n"
        "  effect     heaviest to lightest 2.51 : 1 · update off by 0.42 of the right one\n"
        "\n"
        "  step 3  micro-batch 0   ┊ marks a fair share\n"
        "  rank 0  164 tokens  0.70 of a fair share, light     ████████   ┊\n"
        "  rank 1  350 tokens  1.76 times a fair share, heavy  ████████████████████\n"
        "\n"
        "  evidence   2 coefficients, all 0.5000 (relative error 2e-8), residual 3e-7; loss weights from\n"
        "             cross_entropy(mean) at train.py:41, 12 of 12 losses seen\n"
        "  repair     Divide the summed loss by the global count, once: failuremap.attach(model,\n"
        '             rule="weighted_mean"), or reduction="sum" and one division after the all-reduce.'
    )


@pytest.mark.parametrize(
    ("verdict", "start"),
    [
        (RIGHT, "✓ right  "),
        (COUNTS_IGNORED, "✗ wrong  "),
        (CANNOT_TELL, "? cannot tell  "),
        (NOT_MEASURED, "? not measured  "),
        (SCRIPT_FAILED, "! script failed  "),
    ],
)
def test_the_first_line_is_the_mark_the_outcome_in_words_and_the_sentence(verdict: Verdict, start: str):
    assert drawn(verdict)[0].startswith(start + verdict.sentence[:20])


def test_an_outcome_that_the_sentence_opens_with_is_not_said_twice():
    verdict = NOT_MEASURED.model_copy(update={"sentence": "Not measured: what was seen is not enough."})

    assert drawn(verdict)[0] == "? Not measured: what was seen is not enough."


@pytest.mark.parametrize(
    ("ranks", "micro_batches", "start"),
    [
        (2, 1, "  step 1041  micro-batch 0 "),
        (2, 4, "  step 1041  micro-batch 0 "),
        (8, 8, "  step 1041  heaviest and lightest of 8 ranks"),
    ],
)
def test_each_picture_says_which_step_it_shows(ranks: int, micro_batches: int, start: str):
    cells = grid(ranks, micro_batches, lambda r, m: 2.0 if r else 0.5)
    lines = drawn(COUNTS_IGNORED.model_copy(update={"cells": cells, "cells_step": 1041}))
    unknown = drawn(COUNTS_IGNORED.model_copy(update={"cells": cells, "cells_step": None}))

    assert [line for line in lines if line.startswith(start)]
    assert not [line for line in unknown if line.startswith("  step ")]


def test_the_counts_stay_in_line_below_a_long_step():
    lines = drawn(COUNTS_IGNORED.model_copy(update={"cells_step": 1041}))

    assert [line[:23] for line in lines if line.startswith("  rank ")] == [
        "  rank 0     164 tokens",
        "  rank 1     350 tokens",
    ]


def test_each_reason_stands_on_its_own_line():
    starts = [line[13:30] for line in drawn(CANNOT_TELL, 120)]

    assert {"parameter 'head.w", "Usual causes: (a)", "To settle it, cap"} <= set(starts)


def test_the_parts_come_in_the_order_in_which_a_reader_needs_them():
    text = "\n".join(drawn(SEVERAL_FINDINGS))
    places = [text.index(word) for word in ("followed", "  rank 0  ", "evidence", "also", "repair", "note ")]

    assert places == sorted(places)


def test_notes_and_findings_that_are_not_shown_are_counted():
    text = "\n".join(drawn(SEVERAL_FINDINGS))

    assert "Note 2: the loss at line 2 was seen on rank 0 only.   (2 more notes in the JSON)" in text
    assert "(1 more finding in the JSON)" in text
    assert "Note 3" not in text


def test_part_of_the_parameters_is_said_on_the_page():
    assert any("4 of 31 parameters: head.weight" in line for line in drawn(PART_OF_PARAMETERS))


def test_both_candidates_are_on_the_page_with_what_separates_them():
    text = " ".join(" ".join(drawn(TWO_CANDIDATES)).split())

    assert "the window divides twice (failuremap show divided-by-window-twice) or the world divides twice" in text
    assert "separate a window of another length" in text


def test_many_cells_are_folded_to_the_heaviest_and_the_lightest():
    lines = drawn(EIGHT_BY_EIGHT)

    assert "  step 3  heaviest and lightest of 8 ranks x 8 micro-batches   ┊ marks a fair share" in lines
    assert "  … 58 cells between, from 0.40 to 3.27 times a fair share" in lines


def test_the_one_heavy_rank_of_64_is_shown():
    assert any(
        line.startswith("  rank 41  350 tokens  3.90 times a fair share, heavy") for line in drawn(SIXTY_FOUR_RANKS)
    )


def test_a_wide_page_has_counts_beside_the_bars_and_a_narrow_one_below():
    wide, narrow = drawn(COUNTS_IGNORED_IN_WINDOW, 120), drawn(COUNTS_IGNORED_IN_WINDOW, 80)

    assert any("0.40" in line and "164 tokens" in line for line in wide)
    assert not any("0.40" in line and "164 tokens" in line for line in narrow)
    assert any("164 tokens" in line for line in narrow)


def test_a_micro_batch_that_a_rank_does_not_have_is_shown_as_none():
    ragged = RIGHT.model_copy(update={"cells": RIGHT.cells[:-1]})

    assert any("none" in line for line in drawn(ragged))
    assert not any("none" in line for line in drawn(RIGHT))


@pytest.mark.parametrize("name", SAMPLES)
def test_nothing_from_a_job_reaches_the_terminal_as_a_control_code(name: str):
    file = io.StringIO()
    print_verdict(SAMPLES[name], file)

    assert [char for char in file.getvalue() if not char.isprintable() and char != "\n"] == []


def test_hostile_names_are_shown_as_escapes():
    assert "\\u001b[31m\\u202e" in drawn(HOSTILE_NAMES)[0]


def test_a_terminal_gets_colours():
    file = io.StringIO()
    Console(file=file, width=100, force_terminal=True, color_system="standard").print(page(COUNTS_IGNORED))

    assert "\x1b[" in file.getvalue()


def test_no_color_leaves_no_colour_on_a_terminal():
    file = io.StringIO()
    console = Console(file=file, width=100, force_terminal=True, no_color=True, color_system="standard")
    console.print(page(COUNTS_IGNORED))

    assert "\x1b[31m" not in file.getvalue()
    assert "\x1b[1;31m" not in file.getvalue()


def test_a_pipe_gets_plain_text():
    output = piped("counts_ignored", PYTHONIOENCODING="utf-8")

    assert output.decode().startswith("✗ wrong  A token on rank 1")
    assert b"\x1b" not in output


def test_an_ascii_pipe_gets_marks_and_bars_in_ascii():
    lines = piped("counts_ignored", PYTHONIOENCODING="ascii").decode("ascii").splitlines()

    assert lines[0] == "x wrong  A token on rank 1 weighs 2.51 times a token on rank 0."
    assert "  rank 0  164 tokens  0.70 of a fair share, light     ########   |" in lines


def test_a_character_that_the_encoding_lacks_is_escaped():
    file = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    print_verdict(RIGHT.model_copy(update={"sentence": "größer als 損失"}), file)
    file.seek(0)

    assert file.read().startswith("+ right  größer als \\u640d\\u5931\n")


@pytest.mark.parametrize(
    ("share", "top", "expected"),
    [
        (1.0, 1.0, "█" * 10),
        (0.5, 1.0, "█████    ┊"),
        (2.0, 2.0, "█" * 10),
        (0.0, 2.0, "    ┊"),
        (1e-9, 1.0, "▏        ┊"),
        (-3.0, 1.0, "         ┊"),
        (None, 1.0, ""),
        (float("nan"), 1.0, ""),
        (float("inf"), 1.0, ""),
    ],
)
def test_a_bar_is_in_proportion_with_a_tick_at_a_fair_share(share: float | None, top: float, expected: str):
    assert bar(share, top, 10) == expected
