"""Writes what requests hold, as typed dictionaries and types of arguments."""

from .document import Document, Property, Schema, UnsupportedError, literal, reference, split

HEAD = '''"""What requests hold. Made from /openapi.json; do not edit."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Union

from typing_extensions import NotRequired, TypedDict

'''
SCALARS = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
DATES = {"date-time": "str | dt.datetime", "date": "str | dt.date"}


class Inputs:
    """The types of arguments, and what they need."""

    def __init__(self, document: Document, prefix: str = "") -> None:
        self.document = document
        self.prefix = prefix
        self.written: dict[str, str] = {}

    def type_of(self, schema: Schema) -> str:
        plain, nullable = split(schema)
        return self.plain(plain) + (" | None" if nullable else "")

    def plain(self, schema: Schema) -> str:
        if "$ref" in schema:
            return self.named(reference(schema))
        kind = schema.get("type")
        if kind == "array":
            return f"Sequence[{self.type_of(schema['items'])}]"
        if kind == "object" and "properties" not in schema:
            return "Mapping[str, Any]"
        if "enum" in schema:
            return literal(schema["enum"])
        if kind == "string" and schema.get("format") in DATES:
            return DATES[schema["format"]]
        if kind in SCALARS:
            return SCALARS[kind]
        raise UnsupportedError(f"{schema} has no type")

    def named(self, name: str) -> str:
        param = f"{name}Param"
        if name not in self.written:
            self.written[name] = ""
            schema = self.document.schemas[name]
            if "oneOf" in schema:
                self.written[name] = self.union(param, schema)
            else:
                self.written[name] = self.dictionary(param, self.document.properties(name))
        return self.prefix + param

    def union(self, param: str, schema: Schema) -> str:
        kinds: list[str] = []
        before = ""
        for at, one in enumerate(schema["oneOf"]):
            if "properties" in one:
                name = f"{param}Object" + (str(at) if "Object" in "".join(kinds) else "")
                self.document.schemas[name] = one
                before += self.dictionary(name, self.document.properties(name)) + "\n\n"
                kinds.append(name)
            else:
                kinds.append(self.type_of(one))
        return f"{before}{param} = Union[{', '.join(kinds)}]\n"

    def dictionary(self, param: str, properties: list[Property]) -> str:
        lines = [f"class {param}(TypedDict):"]
        for it in properties:
            if it.argument != it.name:
                raise UnsupportedError(f"{param}.{it.name} is a word of Python")
            kind = (
                self.type_of(it.schema).replace(self.prefix, "")
                if self.prefix
                else (self.type_of(it.schema))
            )
            lines.append(f'    {it.name}: "{kind if it.required else f"NotRequired[{kind}]"}"')
        return "\n".join(lines) + "\n"


def write(document: Document) -> str:
    inputs = Inputs(document)
    for operation in document.operations:
        for it in [*(operation.body or []), *operation.query]:
            inputs.type_of(it.schema)
    every = sorted(f"{name}Param" for name in inputs.written)
    return HEAD + "\n" + "\n\n".join(inputs.written.values()) + f"\n\n__all__ = {every!r}\n"
