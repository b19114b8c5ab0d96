"""Cases as tables: JSON lines and Parquet; the same bytes for the same cases."""

from __future__ import annotations

import io
import json
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin

from failuremap.catalogue.exchange.tiers import Tier, canary_line
from failuremap.catalogue.records.model import Case
from failuremap.errors import MissingDependency

Row = Mapping[str, Any]


def json_lines(rows: Iterable[Row]) -> bytes:
    """Writes one JSON object a line."""
    lines = (json.dumps(row, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for row in rows)
    return "".join(f"{line}\n" for line in lines).encode()


def parquet(cases: Sequence[Case], tier: Tier) -> bytes:
    """Writes the cases as Parquet: texts, numbers and lists of texts as such, all else as JSON text.

    Raises:
        MissingDependency: pyarrow is absent.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingDependency("the Parquet file", "pyarrow", "data") from error
    columns = column_kinds(cases)
    rows = [case.document() for case in cases]
    data = {name: [_cell(kind, row[name]) for row in rows] for name, kind in columns.items()}
    arrow = {"text": pa.string(), "number": pa.int64(), "texts": pa.list_(pa.string()), "json": pa.string()}
    schema = pa.schema([(name, arrow[kind]) for name, kind in columns.items()], {"canary": canary_line(tier)})
    memory = io.BytesIO()
    pq.write_table(pa.table(data, schema=schema), memory, compression="zstd")
    return memory.getvalue()


def column_kinds(cases: Sequence[Case]) -> dict[str, str]:
    """Returns the kind of each column that the cases have: text, number, texts, or json."""
    withheld = () if any(case.is_member_form for case in cases) else ("harness", "repair")
    return {name: _column(field.annotation) for name, field in Case.model_fields.items() if name not in withheld}


def _column(annotation: Any) -> str:
    """Returns how a field of this type is a column."""
    while get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    if get_origin(annotation) in {types.UnionType, Union}:
        kinds = {_column(inner) for inner in get_args(annotation) if inner is not type(None)}
        return kinds.pop() if len(kinds) == 1 else "json"
    if get_origin(annotation) is tuple and _column(get_args(annotation)[0]) == "text":
        return "texts"
    if annotation is str or str(annotation).startswith("typing.Literal"):
        return "text"
    return "number" if annotation is int else "json"


def _cell(kind: str, value: Any) -> Any:
    if kind != "json" or value is None:
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
