"""Writes what the server answers, and its events, as models."""

from .document import Document, Schema, UnsupportedError, class_name, literal, reference, split

HEAD = '''"""What the server answers. Made from /openapi.json; do not edit."""

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import Discriminator, Field, RootModel, Tag

from .._model import Model

'''
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
DATES = {"date-time": "dt.datetime", "date": "dt.date"}


class Models:
    """The models that answers and events need."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.written: dict[str, str] = {}

    def type_of(self, schema: Schema) -> str:
        plain, nullable = split(schema)
        return self.plain(plain) + (" | None" if nullable else "")

    def plain(self, schema: Schema) -> str:
        if "$ref" in schema:
            return self.named(reference(schema))
        kind = schema.get("type")
        if kind == "array":
            return f"list[{self.type_of(schema['items'])}]"
        if kind == "object":
            if "properties" in schema:
                raise UnsupportedError(f"{schema} has no name")
            extra = schema.get("additionalProperties")
            return f"dict[str, {self.type_of(extra) if isinstance(extra, dict) else 'Any'}]"
        if kind == "string" and schema.get("format") in DATES:
            return DATES[schema["format"]]
        if kind in SCALARS:
            # A later server may have more values than this document, so an `enum` is not checked.
            return SCALARS[kind]
        raise UnsupportedError(f"{schema} has no type")

    def named(self, name: str) -> str:
        if name == "EventRow":
            return "Event"
        if "enum" in self.document.schemas[name]:
            return "str"
        if name not in self.written:
            self.written[name] = ""
            self.written[name] = self.model(name)
        return f'"{name}"'

    def model(self, name: str) -> str:
        description = self.document.schemas[name].get("description", "")
        lines = [f"class {name}(Model):", f"    {docstring(description or name)}", ""]
        for it in self.document.properties(name):
            kind = self.type_of(it.schema)
            alias = f'alias="{it.name}"' if it.argument != it.name else ""
            if it.required:
                default = f" = Field({alias})" if alias else ""
            else:
                kind = kind if kind.endswith("| None") else f"{kind} | None"
                default = f" = Field(default=None, {alias})" if alias else " = None"
            lines.append(f"    {it.argument}: {unquoted(kind)}{default}")
            if it.description:
                lines.append(f"    {docstring(it.description)}")
        return "\n".join(lines) + "\n"

    def event(self, name: str, data: str | None) -> str:
        kind = self.named(data) if data else "dict[str, Any]"
        summary = self.document.text["webhooks"][name]["post"].get("summary", name)
        return "\n".join(
            [
                f"class {class_name(name)}Event(EventBase):",
                f"    {docstring(summary)}",
                "",
                f"    type: {literal([name])}",
                f"    data: {unquoted(kind)}",
                "",
            ]
        )


def unquoted(kind: str) -> str:
    """A type as one forward reference, which mentions others before they are defined."""
    return (
        '"' + kind.replace('"', "") + '"' if '"' in kind or kind.startswith("list[Event") else kind
    )


def docstring(text: str) -> str:
    text = " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
    text = text[:1].upper() + text[1:]
    return f'"""{text}{"" if text.endswith((".", ")")) else "."}"""'.replace('"."""', '". """')


BASE = '''class EventBase(Model):
    """What all events have in common."""

    id: str
    """The event."""
    timestamp: dt.datetime
    """When."""
    sequence: int
    """Its place in the workspace's log; grows by one with each event."""


class UnknownEvent(EventBase):
    """An event of a later server, which this version has no type for."""

    type: str
    data: dict[str, Any]

'''


def write(document: Document) -> str:
    models = Models(document)
    for operation in document.operations:
        if operation.answer:
            models.named(operation.answer)
    events = {name: models.event(name, data) for name, data in document.events.items()}
    names = {name: f"{class_name(name)}Event" for name in events}
    known = ",\n        ".join(names.values())
    tagged = "\n".join(
        f'            Annotated[{kind}, Tag("{name}")],' for name, kind in names.items()
    )
    union = f'''
def _tag(value: Any) -> str:
    """Finds the class of an event by its type, in JSON or as a model."""
    kind = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return kind if kind in EVENT_TYPES else "unknown"


EVENT_TYPES = frozenset({sorted(names)!r})

if TYPE_CHECKING:
    # What a later server adds comes as `UnknownEvent`, which is left out here so that `event.type`
    # tells the others apart.
    Event = Union[
        {known},
    ]
else:
    Event = Annotated[
        Union[
{tagged}
            Annotated[UnknownEvent, Tag("unknown")],
        ],
        Discriminator(_tag),
    ]


class EventRow(RootModel[Event]):
    """An event that is an answer by itself."""

'''
    order = [text for name, text in models.written.items()]
    text = "\n\n".join([BASE, *order, *events.values()])
    rebuild = "\n".join(f"{name}.model_rebuild()" for name in models.written)
    shared = ["Event", "EventBase", "EventRow", "UnknownEvent"]
    every = sorted([*models.written, *names.values(), *shared])
    return HEAD + "\n" + text + "\n" + union + "\n" + rebuild + f"\n\n__all__ = {every!r}\n"
