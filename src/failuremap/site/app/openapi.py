"""The OpenAPI 3.1 description of /api: each address, what it takes, every status that it answers with."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from failuremap import __version__
from failuremap.catalogue.records.schema import schema_text
from failuremap.site.app.sessions import cookie_name
from failuremap.site.app.settings import Settings
from failuremap.site.app.submissions import MAX_NOTE, MAX_SOURCE_BYTES

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_WHEN: Json = {"type": "integer", "description": "Seconds since 1970."}
_CASE_ID: Json = {"name": "id", "in": "path", "required": True, "schema": _TEXT, "example": "FM-001-1"}
_NUMBER: Json = {"name": "number", "in": "path", "required": True, "schema": {"type": "integer", "minimum": 1}}
_KNOWN: Json = {
    "name": "If-None-Match", "in": "header", "schema": _TEXT, "description": "An ETag of an earlier answer."
}  # fmt: skip
_MEMBERS: list[Json] = [{"session": []}]
_REFUSALS = {
    "401": "Not signed in.", "403": "The request comes from another site.", "404": "There is nothing of this name.",
    "422": "What was sent can't be used; the message says why.", "429": "Too often; Retry-After says how long to wait.",
    "503": "No candidate is judged now.",
}  # fmt: skip


def description(settings: Settings) -> Json:
    """Returns the description of a site's /api."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "failuremap",
            "version": __version__,
            "license": {"name": "CC0-1.0", "identifier": "CC0-1.0"},
        },
        "servers": [{"url": str(settings.address)}],
        "paths": _paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"session": {"type": "apiKey", "in": "cookie", "name": cookie_name(settings)}},
        },
    }


def _paths() -> Json:
    return {
        "/api/cases": {"get": _get("The open cases.", "Cases", [_KNOWN])},
        "/api/cases/{id}": {"get": _get("The open record of a case.", "Record", [_CASE_ID, _KNOWN], "404")},
        "/api/contracts": {"get": _get("The contracts of what is held back.", "Contracts", [_KNOWN])},
        "/api/member/cases/{id}": {
            "get": _get("The record with its repair.", "Record", [_CASE_ID, _KNOWN], "401", "404", members=True)
        },
        "/api/member/candidates": {
            "get": _get("Your candidates.", "Candidates", [], "401", members=True),
            "post": _hand_in(),
        },
        "/api/member/candidates/{number}": {
            "get": _get("One of your candidates.", "Candidate", [_NUMBER], "401", "404", members=True)
        },
    }


def _get(summary: str, schema: str, parameters: list[Json], *refusals: str, members: bool = False) -> Json:
    responses = {"200": _answer(summary, schema)}
    if _KNOWN in parameters:
        responses["304"] = {"description": "You have it already."}
    return {
        "summary": summary,
        "parameters": parameters,
        "responses": responses | _refused(refusals),
        **({"security": _MEMBERS} if members else {}),
    }


def _hand_in() -> Json:
    return {
        "summary": "Hand in a candidate.",
        "description": "A program sends the header Origin with the address of this site.",
        "requestBody": {"required": True, "content": {"application/json": {"schema": _ref("NewCandidate")}}},
        "responses": {"201": _answer("It is in the queue.", "Candidate")}
        | _refused(("401", "403", "404", "422", "429", "503")),
        "security": _MEMBERS,
    }


def _refused(statuses: tuple[str, ...]) -> Json:
    return {status: _answer(_REFUSALS[status], "Refusal") for status in statuses}


def _answer(text: str, schema: str) -> Json:
    return {"description": text, "content": {"application/json": {"schema": _ref(schema)}}}


def _ref(schema: str) -> Json:
    return {"$ref": f"#/components/schemas/{schema}"}


@cache
def _schemas() -> Json:
    record = json.loads(schema_text())
    parts = record.pop("$defs", {})
    listed = {"id": _TEXT, "title": _TEXT, "family": _TEXT, "variant": {"type": "integer"}, "modified": _TEXT,
              "sha256": _TEXT, "url": _TEXT}  # fmt: skip
    candidate = {
        "number": {"type": "integer"}, "case": _TEXT, "note": _TEXT, "state": {"enum": ["queued", "running", "judged"]},
        "handed_in": _WHEN, "judged": {"type": ["integer", "null"]}, "verdict": {"type": ["object", "null"]},
    }  # fmt: skip
    new = {"case": _TEXT, "source": {**_TEXT, "minLength": 1, "maxLength": MAX_SOURCE_BYTES},
           "note": {**_TEXT, "maxLength": MAX_NOTE}}  # fmt: skip
    return {
        **_renamed({**parts, "Record": record}),
        "Cases": _list_of("cases", _object(listed)),
        "Contracts": _list_of("contracts", {"type": "object"}),
        "Candidates": _list_of("candidates", _object(candidate)),
        "Candidate": {**_object(candidate), "properties": {**candidate, "source": _TEXT}},
        "NewCandidate": {**_object(new), "required": ["case", "source"], "additionalProperties": False},
        "Refusal": _object({"status": {"type": "integer"}, "message": _TEXT}),
    }


def _object(properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list_of(name: str, items: Json) -> Json:
    return _object({name: {"type": "array", "items": items}})


def _renamed(value: Any) -> Any:
    """Returns a schema whose references lead to where an OpenAPI description keeps its schemas."""
    if isinstance(value, dict):
        return {key: _renamed(inner) for key, inner in value.items() if key not in {"$schema", "$id"}}
    if isinstance(value, list):
        return [_renamed(inner) for inner in value]
    return value.replace("#/$defs/", "#/components/schemas/") if isinstance(value, str) else value
