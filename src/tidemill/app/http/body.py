"""The bodies of requests: JSON, of bounded size."""

from typing import Any

from starlette.requests import Request

from tidemill.app.http.problem import BadJson, TooLarge
from tidemill.app.json_text import decoded
from tidemill.tasks.errors import BadTask

MOST_BYTES = 64 * 1024 * 1024


async def read_json(request: Request) -> Any:
    """The body. Raises `TooLarge` before more than `MOST_BYTES` are kept, and `BadJson`."""
    return _decoded(await _content(request))


async def read_object(request: Request) -> dict[str, Any]:
    """The body, which must be a JSON object; without one, an empty object."""
    content = await _content(request)
    value = _decoded(content) if content else {}
    if not isinstance(value, dict):
        raise BadTask("the request must be a JSON object")
    return value


async def _content(request: Request) -> bytearray:
    content = bytearray()
    async for chunk in request.stream():
        content += chunk
        if len(content) > MOST_BYTES:
            raise TooLarge(f"the request has more than {MOST_BYTES:,} bytes")
    return content


def _decoded(content: bytearray) -> Any:
    try:
        return decoded(content)
    except ValueError as error:
        raise BadJson(f"the request is no JSON: {error}") from error


def takes(*schemas: dict[str, Any]) -> dict[str, Any]:
    """What OpenAPI says of a body that is read here: one of the schemas."""
    schema = schemas[0] if len(schemas) == 1 else {"oneOf": list(schemas)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def fields(about: dict[str, str], *required: str) -> dict[str, Any]:
    """The schema of an object: what each of its fields is, in words."""
    properties = {name: {"description": text} for name, text in about.items()}
    return {"type": "object", "properties": properties, "required": list(required)}
