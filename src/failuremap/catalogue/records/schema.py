"""The JSON Schema of a record, in both of its forms: what `docs/record.schema.json` says."""

from __future__ import annotations

import json
from typing import Any

from failuremap.catalogue.records.model import Case

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """Returns the JSON Schema of a record; hashes, and the agreement of its parts, `case_from_json` checks besides."""
    return {"$schema": DIALECT, **Case.model_json_schema()}


def schema_text() -> str:
    """Returns the text of the published schema."""
    return json.dumps(schema(), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
