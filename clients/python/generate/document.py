"""Reads an OpenAPI document as far as Postrider's uses the standard; anything else is refused."""

import keyword
import re
from dataclasses import dataclass, field
from typing import Any

Schema = dict[str, Any]

FILE = "application/octet-stream"
METHODS = ("get", "post", "put", "patch", "delete")
# Lists of what a body may hold although the document leaves its items open: a bad item is answered
# by itself, so the document allows anything.
ITEMS = {("BatchBody", "contacts"): "ContactInput"}
# Streams of lines, each of them one of these.
LINES = {"exportContacts": "Contact"}
# Bodies whose `type` is the name of the field that is given beside it.
INFERRED = {"SendMessage", "Reply"}


class UnsupportedError(Exception):
    """The document has what this generator does not know."""


@dataclass
class Property:
    """A property of an object, or a parameter of the query."""

    name: str
    schema: Schema
    required: bool
    description: str = ""

    @property
    def argument(self) -> str:
        """Its name in Python."""
        return self.name + "_" if keyword.iskeyword(self.name) else self.name


@dataclass
class Operation:
    """One method of a client."""

    id: str
    names: list[str]
    method: str
    path: str
    summary: str
    description: str
    answer: str | None
    kind: str
    keyed: bool
    waits: bool
    infers: bool
    uploads: bool
    arguments: list[str] = field(default_factory=list)
    query: list[Property] = field(default_factory=list)
    body: list[Property] | None = None
    body_is_optional: bool = False

    @property
    def is_admin(self) -> bool:
        return self.names[0] == "admin"


def takes_file(operation: Schema) -> bool:
    return FILE in operation.get("requestBody", {}).get("content", {})


def answers_file(operation: Schema) -> bool:
    return FILE in operation["responses"].get("200", {}).get("content", {})


def is_archive(path: str, operation: Schema) -> bool:
    """Whether it moves a whole workspace, which commands do and these clients do not."""
    is_file = takes_file(operation) or answers_file(operation)
    return is_file and path.startswith("/admin/")


class Document:
    """The document, with the clients' names of its operations."""

    def __init__(self, text: Any, names: dict[str, str]) -> None:
        self.text = text
        self.schemas: dict[str, Schema] = text["components"]["schemas"]
        self.operations: list[Operation] = []
        raw: dict[str, tuple[str, str, Schema]] = {}
        for path, item in text["paths"].items():
            if path.startswith(("/v1/", "/admin/v1/")):
                raw |= {
                    item[it]["operationId"]: (path, it, item[it])
                    for it in METHODS
                    if it in item and not is_archive(path, item[it])
                }
        for id in [*raw, *names]:
            if id not in raw or id not in names:
                raise UnsupportedError(
                    f"{id} stands only in one of the document and operations.json"
                )
        for id, (path, method, operation) in raw.items():
            if names[id].startswith("same as "):
                self.check_same(operation, raw[names[id].removeprefix("same as ")][2])
            else:
                self.operations.append(
                    self.operation(names[id].split("."), path, method, operation)
                )
        self.events = {name: self.event(name) for name in text["webhooks"]}

    @staticmethod
    def check_same(operation: Schema, other: Schema) -> None:
        """A second path of an operation needs no method of its own."""
        for part in ("requestBody", "parameters", "responses"):
            if operation.get(part) != other.get(part):
                raise UnsupportedError(
                    f"{operation['operationId']} differs from {other['operationId']}"
                )

    def operation(self, names: list[str], path: str, method: str, raw: Schema) -> Operation:
        parameters = raw.get("parameters", [])
        of = {
            place: [it for it in parameters if it["in"] == place] for place in ("query", "header")
        }
        query = [
            Property(it["name"], it["schema"], it.get("required", False), it.get("description", ""))
            for it in of["query"]
        ]
        headers = {it["name"] for it in of["header"]}
        # `Postrider-Workspace` is for sessions, which these clients have none of.
        known = {"Idempotency-Key", "Prefer", "Last-Event-ID", "Postrider-Workspace", "Range"}
        if headers - known:
            raise UnsupportedError(f"{raw['operationId']} has the headers {headers}")
        name, body = None, None
        if "requestBody" in raw and not takes_file(raw):
            name = reference(raw["requestBody"]["content"]["application/json"]["schema"])
            body = self.properties(name)
        kind, answer = self.answer(raw, {it.name for it in query})
        return Operation(
            raw["operationId"],
            names,
            method.upper(),
            path,
            raw["summary"],
            raw.get("description", ""),
            answer,
            kind,
            "Idempotency-Key" in headers,
            "Prefer" in headers,
            name in INFERRED,
            takes_file(raw),
            re.findall(r"{(\w+)}", path),
            query,
            body,
            not raw.get("requestBody", {}).get("required", False),
        )

    def answer(self, raw: Schema, query: set[str]) -> tuple[str, str | None]:
        """How an operation answers, and with what."""
        answers = [it for status, it in raw["responses"].items() if status.startswith("2")]
        if not any("content" in it for it in answers):
            return "nothing", None
        if answers_file(raw):
            return "file", None
        [good] = answers
        # What there is as JSON is read as JSON.
        known = good["content"]
        media = "application/json" if "application/json" in known else next(iter(known))
        content = known[media]
        if media == "text/event-stream":
            return "events", None
        if media == "application/x-ndjson":
            return "lines", LINES[raw["operationId"]]
        name = reference(content["schema"])
        fields = {it.name for it in self.properties(name)}
        if {"data", "page"} <= fields and "page" in query:
            return "pages", name
        if {"data", "next_cursor"} <= fields and "cursor" in query:
            return "cursors", name
        return "one", name

    def properties(self, name: str) -> list[Property]:
        """The properties of an object. Of alternatives only what they have in common: a server says
        clearly what is missing."""
        schema = self.schemas[name]
        found: dict[str, Property] = {}
        for part in schema.get("allOf", [schema]):
            if "$ref" in part:
                part = {"allOf": [part], "properties": {}}
                for it in self.properties(reference(part["allOf"][0])):
                    found[it.name] = it
            if "oneOf" in part:
                continue
            for key, value in part.get("properties", {}).items():
                if (name, key) in ITEMS:
                    value = value | {"items": {"$ref": "#/components/schemas/" + ITEMS[name, key]}}
                required = key in part.get("required", []) and not (
                    name in INFERRED and key == "type"
                )
                found[key] = Property(key, value, required, value.get("description", ""))
        return list(found.values())

    def event(self, name: str) -> str | None:
        """The schema of an event's data."""
        content = self.text["webhooks"][name]["post"]["requestBody"]["content"]
        parts = self.schemas[reference(content["application/json"]["schema"])]["allOf"]
        return reference(parts[1]["properties"]["data"])

    def row(self, answer: str) -> Schema:
        """The schema of the rows of a list."""
        [data] = [it for it in self.properties(answer) if it.name == "data"]
        items: Schema = data.schema["items"]
        return items

    def codes(self) -> list[str]:
        """Every code of an error, from what the operations say of their refusals."""
        found = set()
        for item in self.text["paths"].values():
            for operation in item.values():
                for status, answer in operation["responses"].items():
                    if not status.startswith("2"):
                        found |= set(re.findall(r"`([A-Z_]+)`", answer["description"]))
        return sorted(found | {"METHOD_NOT_ALLOWED"})


def reference(schema: Schema) -> str:
    """The name of what a schema refers to."""
    if "$ref" not in schema:
        raise UnsupportedError(f"{schema} is no reference")
    name: str = schema["$ref"].rsplit("/", 1)[1]
    return name


def split(schema: Schema) -> tuple[Schema, bool]:
    """A schema without null, and whether it allows null."""
    if isinstance(schema.get("type"), list):
        kinds = [it for it in schema["type"] if it != "null"]
        if len(kinds) != 1:
            raise UnsupportedError(f"{schema} has several types")
        plain = schema | {"type": kinds[0]}
        if "enum" in plain:
            plain["enum"] = [it for it in plain["enum"] if it is not None]
        return plain, "null" in schema["type"]
    if "oneOf" in schema:
        kept = [it for it in schema["oneOf"] if it != {"type": "null"}]
        if len(kept) == 1:
            return kept[0], len(kept) < len(schema["oneOf"])
    return schema, False


def class_name(text: str) -> str:
    """`otp.pumping_suspected` as `OtpPumpingSuspected`."""
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[._-]", text))


def literal(values: list[str]) -> str:
    return f"Literal[{', '.join(repr(it) for it in values)}]"
