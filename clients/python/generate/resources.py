"""Writes the methods of the two clients."""

import re

from .document import Document, Operation, Property, class_name
from .inputs import Inputs
from .models import Models, docstring

HEAD = '''"""The methods of {client}. Made from /openapi.json; do not edit."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from .._call import OMIT, Call, Omit, path
from .._files import {prefix}Content, {prefix}Download, FileUpload
from .._pages import {prefix}CursorPages, {prefix}Pages
from .._stream import {prefix}EventStream, {prefix}Export
from .._transport import {prefix}Transport
from . import inputs as i
from . import models as m
'''


class Methods:
    """Writes the methods of one kind of client."""

    def __init__(self, document: Document, is_async: bool) -> None:
        self.document = document
        self.prefix = "Async" if is_async else ""
        self.is_async = is_async
        self.inputs = Inputs(document, "i.")
        self.models = Models(document)

    def write(self) -> str:
        tree: dict[str, list[Operation]] = {}
        for operation in self.document.operations:
            tree.setdefault(".".join(operation.names[:-1]), []).append(operation)
        classes = [self.resource(name, methods) for name, methods in tree.items()]
        roots = [name for name in tree if not name.startswith("admin.")]
        below = [name for name in tree if name.startswith("admin.")]
        client = "AsyncPostrider" if self.is_async else "Postrider"
        return "\n\n".join(
            [
                HEAD.format(prefix=self.prefix, client=client),
                *classes,
                self.group("Admin", "What an admin token may do.", below),
                self.group("Resources", "All methods, by what they are about.", roots, "admin"),
            ]
        )

    def class_name(self, resource: str) -> str:
        return self.prefix + class_name(resource)

    def group(self, name: str, about: str, resources: list[str], last: str | None = None) -> str:
        lines = [
            f"class {self.prefix}{name}:",
            f'    """{about}"""',
            "",
            f"    def __init__(self, transport: {self.prefix}Transport) -> None:",
        ]
        for resource in resources + ([last] if last else []):
            attribute = resource.rsplit(".", 1)[-1]
            lines.append(f"        self.{attribute} = {self.class_name(resource)}(transport)")
        return "\n".join(lines) + "\n"

    def resource(self, name: str, operations: list[Operation]) -> str:
        about = f"`client.{name}`."
        lines = [
            f"class {self.class_name(name)}:",
            f'    """{about}"""',
            "",
            f"    def __init__(self, transport: {self.prefix}Transport) -> None:",
            "        self._transport = transport",
            "",
        ]
        return "\n".join(lines) + "\n" + "\n".join(self.method(it) for it in operations)

    def method(self, operation: Operation) -> str:
        if operation.kind == "events":
            return self.events(operation)
        options = ["timeout: float | None = None"]
        arguments = [f"{it}: str" for it in operation.arguments]
        required = []
        if operation.uploads:
            arguments.append(f"content: {self.prefix}Content")
            required.append("content_type: str")
        named = [*operation.query, *(operation.body or [])]
        names = [*operation.arguments, *(it.argument for it in named)]
        if len(names) != len(set(names)):
            raise ValueError(f"{operation.id} has two arguments of one name")
        named.sort(key=lambda it: not it.required)
        keywords = [*required, *(self.keyword(it) for it in named)]
        if operation.waits:
            keywords.append("wait: int | None = None")
        if operation.keyed:
            options.insert(0, "idempotency_key: str | None = None")
        answer, statement = self.answer(operation)
        is_plain = operation.kind in ("one", "nothing")
        begin = "async def" if self.is_async and is_plain else "def"
        signature = ", ".join(["self", *arguments, "*", *keywords, *options])
        return "\n".join(
            [
                f"    {begin} {operation.names[-1]}({signature}) -> {answer}:",
                self.documentation(operation),
                *self.call(operation),
                f"        {statement}",
                "",
            ]
        )

    def keyword(self, it: Property) -> str:
        kind = self.inputs.type_of(it.schema)
        return f"{it.argument}: {kind}" if it.required else f"{it.argument}: {kind} | Omit = OMIT"

    def call(self, operation: Operation) -> list[str]:
        template = re.sub(r"{\w+}", "{}", operation.path)
        place = ", ".join([f'"{template}"', *operation.arguments])
        parts = [f'"{operation.method}"', f"path({place})"]
        if operation.query:
            parts.append(f"query={{{self.pairs(operation.query)}}}")
        if operation.body is not None:
            parts.append(f"body={{{self.pairs(operation.body)}}}")
        if operation.body is not None and operation.body_is_optional:
            parts.append("body_is_optional=True")
        if operation.uploads:
            parts.append("upload=FileUpload(content, content_type)")
        if operation.infers:
            parts.append("infers_type=True")
        if operation.waits:
            parts.append("wait=wait")
        if operation.keyed:
            parts.append("keyed=True, idempotency_key=idempotency_key")
        if operation.is_admin:
            parts.append("admin=True")
        return [f"        call = Call({', '.join([*parts, 'timeout=timeout'])})"]

    @staticmethod
    def pairs(properties: list[Property]) -> str:
        return ", ".join(f'"{it.name}": {it.argument}' for it in properties)

    def answer(self, operation: Operation) -> tuple[str, str]:
        """The type of what a method returns, and the statement that does."""
        wait = "await " if self.is_async else ""
        if operation.kind == "nothing":
            return "None", f"{wait}self._transport.nothing(call)"
        if operation.kind == "file":
            return (
                f"{self.prefix}Download",
                f"return {self.prefix}Download(self._transport, call)",
            )
        assert operation.answer
        answer = f"m.{operation.answer}"
        if operation.kind == "lines":
            return (
                f"{self.prefix}Export[{answer}]",
                f"return {self.prefix}Export(self._transport, call, {answer})",
            )
        if operation.answer == "EventRow":
            return "m.Event", f"return ({wait}self._transport.answer(call, m.EventRow)).root"
        if operation.kind == "one":
            return answer, f"return {wait}self._transport.answer(call, {answer})"
        row = "m." + self.models.type_of(self.document.row(operation.answer)).strip('"')
        pages = self.prefix + ("Pages" if operation.kind == "pages" else "CursorPages")
        return (f"{pages}[{row}, {answer}]", f"return {pages}(self._transport, call, {answer})")

    def events(self, operation: Operation) -> str:
        return "\n".join(
            [
                f"    def {operation.names[-1]}(self, *, after: str | int | None = None, "
                f"cursor: str | None = None) -> {self.prefix}EventStream:",
                self.documentation(operation),
                f'        call = Call("GET", "{operation.path}")',
                f"        return {self.prefix}EventStream(self._transport, call, after, cursor)",
                "",
            ]
        )

    @staticmethod
    def documentation(operation: Operation) -> str:
        text = f"{operation.summary}. {operation.description}".strip()
        return f"        {docstring(text)}"


def write(document: Document, is_async: bool) -> str:
    return Methods(document, is_async).write()
