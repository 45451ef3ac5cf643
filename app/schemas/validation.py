"""From pydantic's findings to one clear error: the field's path, and what would be right.

Messages never quote the caller's values, only names of fields.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.errors import InvalidRequest

Model = TypeVar("Model", bound=BaseModel)

_MAX_NAME = 64


def parse(model: type[Model], data: object, where: str = "") -> Model:
    """Validate ``data`` against ``model``.

    ``where`` is the path of ``data`` in the request, for the error's text.

    Raises:
        InvalidRequest: names the first offending field and the fix.
    """
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise explain(
            error.errors(include_input=False, include_url=False)[0], model, where
        ) from None


def explain(found: ErrorDetails, model: type[BaseModel], where: str) -> InvalidRequest:
    """The public error for one of pydantic's findings."""
    path = field_path(where, found["loc"])
    if found["type"] == "extra_forbidden":
        known = _fields_at(model, found["loc"])
        return unknown_field(path, str(found["loc"][-1]), known)
    if found["type"] == "missing":
        return InvalidRequest(f"'{path}' is missing.", field=path)
    message = found["msg"].removeprefix("Value error, ").replace("Input should", "should")
    return InvalidRequest(f"'{path}' {message}.", field=path)


def unknown_field(path: str, name: str, known: Iterable[str]) -> InvalidRequest:
    """Error for a field that the schema does not have, with the nearest name that it has."""
    known = sorted(known)
    near = get_close_matches(name, known, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else f" Known fields: {', '.join(known)}."
    return InvalidRequest(f"'{path}' is not a known field.{hint}", field=path)


def field_path(where: str, location: Iterable[int | str]) -> str:
    """``("messages", 0, "role")`` as ``messages[0].role``; overlong names are cut."""
    path = where
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part[:_MAX_NAME]}" if path else part[:_MAX_NAME]
    return path


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> Iterable[str]:
    """Names of the fields beside the last part of ``location``."""
    current: object = model
    for part in location[:-1]:
        if isinstance(part, str) and isinstance(current, type) and issubclass(current, BaseModel):
            field = current.model_fields.get(part)
            current = _model_inside(field.annotation) if field else None
    if isinstance(current, type) and issubclass(current, BaseModel):
        return current.model_fields
    return ()


def _model_inside(annotation: object) -> object:
    """The pydantic model in an annotation such as ``list[Message] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_inside(argument)
        if found is not None:
            return found
    return None
