"""What is withheld, and where it stands in a build all the same."""

from __future__ import annotations

import functools
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from typing import Any

import ahocorasick
import pytest

from failuremap.catalogue.records import WITHHELD
from failuremap.catalogue.records.digest import value_at
from failuremap.catalogue.records.model import Case


def texts_in(files: dict[str, bytes]) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every file, those in a zip apart; a Parquet file as its cells."""
    for name, content in files.items():
        if name.endswith(".parquet"):
            pq = pytest.importorskip("pyarrow.parquet")
            table = pq.read_table(io.BytesIO(content))
            yield name, json.dumps([table.to_pylist(), str(table.schema.metadata)], ensure_ascii=False)
        elif name.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                yield name, archive.comment.decode()
                yield from ((f"{name}: {info}", archive.read(info).decode()) for info in archive.namelist())
        else:
            yield name, content.decode()


def secrets_of(cases: Any) -> dict[str, str]:
    """Return every text that is withheld: what it is -> the text."""
    secrets: dict[str, str] = {}
    for case in cases:
        document = case.document()
        for path in WITHHELD:
            secrets |= {f"{case.id} {path} {key}": text for key, text in leaves(value_at(document, path))}
        secrets |= {f"{case.id} salt {path}": salt for path, salt in document["member_only"]["salts"].items()}
        if case.visibility == "sealed":
            names = ("title", "id", "family", "abstract", "root_cause", "failure", "evaluation_group", "sha256")
            secrets |= {f"{case.id} {name}": document[name] for name in names}
    return secrets


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts in a value that are long enough to be no accident."""
    if isinstance(value, str):
        yield from [(path, value)] if len(value) > 8 else []
    else:
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, inner in items:
            yield from leaves(inner, f"{path}.{key}")


def standing_in(text: str, patterns: Iterable[str]) -> set[str]:
    """Return which patterns stand in a text; thousands of them are looked up in one pass."""
    automaton = _automaton(frozenset(patterns))
    return {pattern for _, pattern in automaton.iter(text)} if len(automaton) else set()


@functools.lru_cache(maxsize=2)
def _automaton(patterns: frozenset[str]) -> ahocorasick.Automaton:
    automaton = ahocorasick.Automaton()
    for pattern in patterns:
        automaton.add_word(pattern, pattern)
    automaton.make_automaton()
    return automaton


def found(files: dict[str, bytes], secrets: dict[str, str]) -> list[str]:
    """Return which secrets stand in which file, as they are or as JSON writes them."""
    forms = {what: {secret, json.dumps(secret, ensure_ascii=False)[1:-1]} for what, secret in secrets.items()}
    patterns = frozenset[str]().union(*forms.values())
    there = [(name, standing_in(text, patterns)) for name, text in texts_in(files)]
    return [f"{what} in {name}" for what, either in forms.items() for name, seen in there if either & seen]


def open_secrets(cases: list[Case]) -> dict[str, str]:
    """Return the secrets that neither the open form of an open case nor a contract shows, as they show labels.

    The names of a family that is held back are secret whatever an open case says.
    """
    open_forms = json.dumps([case.to_open().document() for case in cases if case.visibility == "open"])
    contracts = {text for case in cases for _, text in leaves(case.document()["contract"])}
    return {
        what: text
        for what, text in secrets_of(cases).items()
        if what.endswith((" id", " family", " title"))
        or (text not in contracts and json.dumps(text)[1:-1] not in open_forms)
    }
