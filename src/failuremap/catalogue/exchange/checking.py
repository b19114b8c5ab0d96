"""Is what a record says true? Each claim holds, fails, or cannot be checked, and says why."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from failuremap.catalogue.exchange.claim import Claim, claim_of
from failuremap.catalogue.exchange.stage_claims import stage_claims
from failuremap.catalogue.exchange.statement import Statement
from failuremap.catalogue.mechanism import STAGES

_OPEN_SPLIT = "open-access"


def check(statement: Statement) -> list[Claim]:
    """Checks everything that a record says, and runs its scripts; in the order of the stages, then of the record."""
    claims = [claim for stage in statement.stages for claim in stage_claims(stage, statement.checks)]
    claims += _record_claims(statement)
    claims += [Claim(claim, "cannot be checked", why) for claim, why in statement.uncheckable.items()]
    return claims


def _record_claims(statement: Statement) -> Iterator[Claim]:
    """Checks what is said of the record as a whole."""
    yield claim_of("variant", _variant_problem(statement), f"N = {statement.variant} in each script, which uses it")
    yield claim_of("implementations", _harness_problem(statement), "the scripts differ in solve() alone")
    if statement.signature:
        found = {_signature(stage.source) for stage in statement.stages}
        wrong = f"contract_signature={statement.signature!r}, but solve() takes {', '.join(sorted(found))}"
        yield claim_of(
            "contract_signature", "" if found == {statement.signature} else wrong, f"solve({statement.signature})"
        )
    shown = [stage.stage for stage in statement.stages]
    wrong = f"stages shown {shown} and withheld {list(statement.withheld)}; expected each of {list(STAGES)} once"
    yield claim_of(
        "stages", "" if sorted([*shown, *statement.withheld]) == sorted(STAGES) else wrong, "shown or withheld"
    )
    leaked = f"{', '.join(statement.leaked)}: said to be withheld, but it is here" if statement.leaked else ""
    yield claim_of("member_only", leaked, "nothing is here that is said to be withheld")
    if statement.is_public is not None:
        yield claim_of("visibility", _visibility_problem(statement), f"it agrees with split={statement.split!r}")
    for claim, (second, first) in statement.others.items():
        yield claim_of(
            claim, "" if second == first else f"{second!r}, but elsewhere {first!r}", f"{second!r}, as elsewhere"
        )


def _visibility_problem(statement: Statement) -> str:
    if statement.is_public and statement.split != _OPEN_SPLIT:
        return f"public, but split={statement.split!r}; only {_OPEN_SPLIT!r} may be read by anyone"
    if statement.is_public != bool(statement.withheld):
        return f"{'public' if statement.is_public else 'not public'}, but it withholds {list(statement.withheld)}"
    return ""


def _variant_problem(statement: Statement) -> str:
    if not statement.title.endswith(f" · case {statement.variant:02d}"):
        return f"variant={statement.variant}, but title={statement.title!r}"
    for stage in statement.stages:
        body = _body(stage.source)
        values = [node.value for node in body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "N"]
        if [ast.unparse(value) for value in values] != [str(statement.variant)]:
            return f"variant={statement.variant}, but N = {[ast.unparse(value) for value in values]} in {stage.stage}"
        names = {node.id for part in body for node in ast.walk(part) if isinstance(node, ast.Name) and _is_read(node)}
        if "N" not in names:
            return f"{stage.stage} doesn't use N"
    return ""


def _is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


def _harness_problem(statement: Statement) -> str:
    harnesses = {
        stage.stage: [ast.dump(part) for part in _body(stage.source) if getattr(part, "name", "") != "solve"]
        for stage in statement.stages
    }
    first, *others = harnesses
    different = [stage for stage in others if harnesses[stage] != harnesses[first]]
    return f"{different[0]} differs from {first} in more than solve()" if different else ""


def _signature(source: str) -> str:
    found = [part for part in _body(source) if isinstance(part, ast.FunctionDef) and part.name == "solve"]
    return ast.unparse(found[0].args) if found else "nothing: there is none"


def _body(source: str) -> list[ast.stmt]:
    """Returns the statements of a script; none where it is no Python, which is a claim of its own."""
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
