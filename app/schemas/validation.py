"""From pydantic's findings to one clear error: the field's path, and what would be right.

Messages never quote the caller's values, only names of fields.
"""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Tag, ValidationError
from pydantic_core import ErrorDetails

from app.errors import InvalidRequest

Model = TypeVar("Model", bound=BaseModel)

_MAX_NAME = 64
# Pydantic's words for the thing that the path names already.
_SUBJECT = re.compile(r"^(?:Input|String|List|Dictionary|Value) should")


class StrictModel(BaseModel):
    """A part of a request: no unknown keys, no conversion of types."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


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
    location, inside = _locate(model, found["loc"])
    path = field_path(where, location)
    if found["type"] == "extra_forbidden":
        return unknown_field(path, str(location[-1])[:_MAX_NAME], _names_of(inside))
    if found["type"] == "missing":
        return InvalidRequest(f"'{path}' is missing.", field=path)
    if found["type"] in ("model_type", "dict_type"):
        return InvalidRequest(f"'{path}' should be an object.", field=path)
    message = _SUBJECT.sub("should", found["msg"].removeprefix("Value error, "))
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


def _locate(
    model: type[BaseModel], location: tuple[int | str, ...]
) -> tuple[list[int | str], object]:
    """The path to what was found, and the model that its last part belongs to.

    Pydantic's location also holds the branch of a union and the mark of a dictionary's key,
    which are no part of the request.
    """
    path: list[int | str] = []
    current: object = model
    parent: object = model
    for part in location:
        branch = _branch(current, part)
        if branch is not None:
            current = _plain(branch)
        elif part != "[key]":
            path.append(part)
            parent, current = current, _plain(_inside(current, part))
    return path, parent


def _branch(union: object, tag: int | str) -> object:
    """The type that a discriminated union has under ``tag``."""
    for option in get_args(union):
        if any(isinstance(mark, Tag) and mark.tag == tag for mark in get_args(option)[1:]):
            return option
    return None


def _inside(current: object, part: int | str) -> object:
    """The type of what a model, list or dictionary holds at ``part``."""
    if isinstance(current, type) and issubclass(current, BaseModel):
        for name, field in current.model_fields.items():
            if part in (name, field.alias):
                return field.annotation
        return None
    return get_args(current)[-1] if get_origin(current) in (list, dict) else None


def _plain(annotation: object) -> object:
    """An annotation without its constraints and without ``None``."""
    if get_origin(annotation) is Annotated:
        return _plain(get_args(annotation)[0])
    options = [option for option in get_args(annotation) if option is not type(None)]
    if type(None) in get_args(annotation) and len(options) == 1:
        return _plain(options[0])
    return annotation


def _names_of(model: object) -> Iterable[str]:
    """The names of a model's fields as they are in a request."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        return [field.alias or name for name, field in model.model_fields.items()]
    return ()
