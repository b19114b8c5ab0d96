"""`failuremap score`: one candidate, a suite of them, or the judge itself."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from failuremap.catalogue.exchange.intake import read_key
from failuremap.errors import InvalidArgument

if TYPE_CHECKING:
    from failuremap.score.results import Result
    from failuremap.score.suite import Candidates, Suite

_NOT_ACCEPTED, _JUDGE_ERROR = 1, 3
_PATH = click.Path(path_type=Path)


@dataclass(frozen=True)
class Options:
    """The values of the command's options, and its argument."""

    file: Path | None
    case: str | None
    suite: Suite | None
    candidates: Path | None
    out: Path | None
    against: Path | None
    plot: Path | None
    jobs: int | None
    key_path: Path | None
    trust_candidate: bool
    selftest: bool
    quick: bool
    export_lm_eval: Path | None
    as_json: bool

    @property
    def key(self) -> bytes | None:
        """The operator's key."""
        return read_key(self.key_path) if self.key_path else None

    @property
    def job_count(self) -> int:
        """How many candidates are judged at once."""
        return self.jobs or os.cpu_count() or 1


@click.command("score")
@click.argument("file", required=False, type=_PATH)
@click.option("--case", metavar="ID", help="The case that FILE repairs: an id, an alias, or a family's name for all N.")
@click.option("--suite", type=click.Choice(["open", "member", "sealed"]), help="The families to score.")
@click.option("--candidates", type=_PATH, metavar="DIR", help="DIR/NAME/sample-1.py or DIR/SYSTEM/NAME/sample-1.py.")
@click.option("--out", type=_PATH, metavar="FILE", help="Keep each verdict of a suite; what is there is not repeated.")
@click.option("--against", type=_PATH, metavar="FILE", help="Results of other systems, to compare with.")
@click.option("--plot", type=_PATH, metavar="FILE", help="Draw the report of a suite as SVG.")
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="How many at once. Default: one a processor.")
@click.option("--key", "key_path", type=_PATH, metavar="FILE", help="The season's key. Default: a new one, revealed.")
@click.option("--trust-candidate", is_flag=True, help="Run it unprotected where no sound box opens.")
@click.option("--selftest", is_flag=True, help="Try to fool the judge; say what was accepted and what was not.")
@click.option("--quick", is_flag=True, help="With --selftest: one of each kind a family.")
@click.option("--export-lm-eval", type=_PATH, metavar="DIR", help="Write the suite as a task of lm-evaluation-harness.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def score_command(**given: Any) -> int:
    """Judge a repair: FILE defines solve, and runs in a box that holds no answer.

    \b
    Examples:
      failuremap score repair.py --case FM-001-1
      failuremap score repair.py --case replica-means-ignore-counts --json
      failuremap score --suite open --candidates answers --out results.jsonl
      failuremap score --selftest --quick

    \b
    Exit codes: 0 accepted · 1 not accepted · 2 usage · 3 the judge failed
    Of a suite: 0 judged, whatever came of it · 3 the judge failed on a sample
    Of a selftest: 0 all as it must be · 1 something was not
    """
    options = Options(**given)
    return _mode_of(options)(options)


def _mode_of(options: Options) -> Callable[[Options], int]:
    modes = {
        "FILE": (options.file, _score_file, {"case", "key_path", "trust_candidate"}),
        "--candidates": (
            options.candidates,
            _score_suite,
            {"suite", "out", "against", "plot", "jobs", "key_path", "trust_candidate"},
        ),
        "--selftest": (options.selftest, _selftest, {"quick", "jobs"}),
        "--export-lm-eval": (options.export_lm_eval, _export, {"suite"}),
    }
    asked = [name for name, (given, _, _) in modes.items() if given]
    if len(asked) != 1:
        found = f"{' and '.join(asked)} are given" if asked else "nothing is given"
        raise InvalidArgument(f"{found}; expected one of {', '.join(modes)}.")
    _, run, allowed = modes[asked[0]]
    own = {"file", "candidates", "selftest", "export_lm_eval", "as_json"}
    unknown = [name for name, value in vars(options).items() if value and name not in own | allowed]
    if unknown:
        flags = ", ".join(f"--{name.removesuffix('_path').replace('_', '-')}" for name in unknown)
        raise InvalidArgument(f"{flags} has no meaning with {asked[0]}; leave it out.")
    return run


def _score_file(options: Options) -> int:
    from failuremap.score.judge import judge
    from failuremap.score.verdict import to_json
    from failuremap.score.words import verdict_lines

    if options.case is None:
        raise InvalidArgument("--case is missing: which case does FILE repair? `failuremap list` shows them.")
    assert options.file is not None
    key = options.key
    verdict = judge(
        options.file, options.case, key=key, trust_candidate=options.trust_candidate, reveal_key=key is None
    )
    click.echo(to_json(verdict) if options.as_json else "\n".join(verdict_lines(verdict)), nl=not options.as_json)
    return {"accepted": 0, "judge-error": _JUDGE_ERROR}.get(verdict.outcome, _NOT_ACCEPTED)


def _score_suite(options: Options) -> int:
    from failuremap.audit.report.json_ import check_writable, write
    from failuremap.score.judging import judge_candidates
    from failuremap.score.plot import svg
    from failuremap.score.report import make_report, to_json
    from failuremap.score.suite import find_candidates
    from failuremap.score.words import report_lines, result_line

    assert options.candidates is not None
    found = find_candidates(options.candidates, options.suite or "open")
    if options.plot:
        check_writable(options.plot)
    others = _others(options, found)
    with _progress(len(found.samples), result_line) as on_result:
        season, results = judge_candidates(
            found,
            on_result,
            out=options.out,
            key=options.key,
            job_count=options.job_count,
            trust_candidate=options.trust_candidate,
        )
    if found.elsewhere:
        click.echo(f"left alone, being of another suite: {', '.join(found.elsewhere)}", err=True)
    report = make_report(season, [*results, *others], found.systems)
    if options.plot:
        write(options.plot, svg(report))
    click.echo(to_json(report) if options.as_json else "\n".join(report_lines(report)), nl=not options.as_json)
    return _JUDGE_ERROR if any(result.verdict.outcome == "judge-error" for result in results) else 0


def _selftest(options: Options) -> int:
    from failuremap.score.selftest import plan, selftest, to_json
    from failuremap.score.words import check_line, selftest_lines

    planned = plan(quick=options.quick)
    with _progress(planned.check_count, check_line) as on_check:
        found = selftest(planned, on_check, job_count=options.job_count)
    click.echo(to_json(found) if options.as_json else "\n".join(selftest_lines(found)), nl=not options.as_json)
    return 0 if found.holds else _NOT_ACCEPTED


def _export(options: Options) -> int:
    from failuremap.score.adapters.lm_eval import export

    assert options.export_lm_eval is not None
    names = export(options.export_lm_eval, options.suite or "open")
    click.echo(f"{len(names)} files in {options.export_lm_eval}: {', '.join(names)}")
    return 0


def _others(options: Options, found: Candidates) -> list[Result]:
    """Reads the results of other systems; they were judged on the same suite, by the same generator of fixtures."""
    from failuremap.score.fixtures import GENERATOR_VERSION
    from failuremap.score.results import read_results

    if options.against is None:
        return []
    season, results = read_results(options.against)
    if (season.suite, season.generator_version) != (found.suite, GENERATOR_VERSION):
        raise InvalidArgument(
            f"--against {str(options.against)!r} is of suite {season.suite}, generator {season.generator_version}; "
            f"expected {found.suite}, {GENERATOR_VERSION}."
        )
    if both := sorted({result.system for result in results} & set(found.systems)):
        raise InvalidArgument(
            f"--against {str(options.against)!r} has system={both[0]!r}, and so has --candidates; rename its folder."
        )
    return results


@contextlib.contextmanager
def _progress(count: int, line: Callable[[Any], str]) -> Iterator[Callable[[Any], None]]:
    """Shows on stderr a bar where it is a terminal, else a line for each that is done."""
    if not sys.stderr.isatty():
        yield lambda done: click.echo(line(done), err=True)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    with Progress(*columns, transient=True, console=Console(stderr=True)) as bar:
        task = bar.add_task("judged", total=count)
        yield lambda _: bar.advance(task)
