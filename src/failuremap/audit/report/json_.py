"""A verdict as JSON with its published schema, and reports written to files whole or not at all."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from failuremap.audit.model import SCHEMA_VERSION, Verdict
from failuremap.errors import InvalidArgument

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def to_json(verdict: Verdict) -> str:
    """Write a verdict as JSON, keys in the order of the schema.

    JSON has no literal for what is no finite number: these are the strings "NaN", "Infinity", "-Infinity".

    Example:
        >>> to_json(Verdict(outcome="right", sentence="Every token weighs the same."))[:24]
        '{\\n  "schema_version": 1,'
    """
    return verdict.model_dump_json(indent=2) + "\n"


class _Schema(GenerateJsonSchema):
    """Allows for each number the three strings that stand for what is no finite number."""

    schema_dialect = DIALECT

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        """Return the schema of a number or its string."""
        return {"anyOf": [super().float_schema(schema), {"enum": ["NaN", "Infinity", "-Infinity"]}]}


def schema() -> dict[str, Any]:
    """Return the JSON Schema of what `to_json` writes."""
    made = Verdict.model_json_schema(schema_generator=_Schema, mode="serialization")
    made["properties"]["schema_version"] = {"const": SCHEMA_VERSION, "title": "Schema Version", "type": "integer"}
    return {"$schema": DIALECT, **made}


def schema_text() -> str:
    """Return the text of the published schema, `docs/verdict.schema.json`."""
    return json.dumps(schema(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def check_writable(path: str | Path) -> None:
    """Raise if a report cannot be written to a path: to be called before the job starts, which may take hours.

    Raises:
        InvalidArgument: the folder does not exist, nothing can be created in it, or the path is a folder itself.
    """
    if _is_stream(Path(path)):
        return
    trial = _beside(_target(path))
    try:
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        raise _refused(path, error) from error


def write(path: str | Path, text: str) -> None:
    """Write a report so that the file is the old one or the whole new one, whatever happens on the way.

    Raises:
        InvalidArgument: as `check_writable`, or the disk is full.
    """
    stream = _is_stream(Path(path))
    target = Path(path) if stream else _target(path)
    written = target if stream else _beside(target)
    try:
        with written.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        if not stream:
            written.replace(target)
    except OSError as error:
        raise _refused(path, error) from error
    finally:
        if not stream:
            written.unlink(missing_ok=True)


def _target(path: str | Path) -> Path:
    """Follow links, so that a report replaces the file a link leads to; refuse what no file can be put at."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise InvalidArgument(f"path={str(path)!r} is a folder; a report is one file. Name a file in it.")
    if not target.parent.is_dir():
        folder = str(Path(path).parent)
        raise InvalidArgument(
            f"path={str(path)!r}: there is no folder {folder!r}; a report is written into a folder that exists. "
            f"Create it:  mkdir -p {folder}"
        )
    return target


def _is_stream(path: Path) -> bool:
    """Tell a pipe or a device such as /dev/stdout, which is written to and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name[:100]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def _refused(path: str | Path, error: OSError) -> InvalidArgument:
    reason = error.strerror or str(error)
    return InvalidArgument(
        f"path={str(path)!r} cannot be written: {reason}; a report needs a folder in which files can be created, "
        "and room for it. Choose another path."
    )
