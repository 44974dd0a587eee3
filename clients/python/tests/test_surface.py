"""Every operation of the server's document has a method, in both clients."""

from __future__ import annotations

import inspect
import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from conftest import Face
from server import Server, fake, refused

from postrider import PostriderError

NAMES = json.loads((Path(__file__).resolve().parents[2] / "operations.json").read_text())


@pytest.fixture(scope="session")
def document(server: Server) -> Any:
    with urllib.request.urlopen(f"{server.url}/openapi.json", timeout=30) as answer:
        return json.load(answer)


def operations(document: Any) -> dict[str, tuple[str, str, bool]]:
    """The method and path of each operation, and whether it takes an Idempotency-Key.

    Whole workspaces are moved by commands, and not by the clients.
    """
    found = {}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            is_ours = path.startswith(("/v1/", "/admin/v1/")) and method != "parameters"
            both = [operation["responses"].get("200"), operation.get("requestBody")]
            is_archive = path.startswith("/admin/") and "octet-stream" in str(both)
            if is_ours and not is_archive:
                names = {it["name"] for it in operation.get("parameters", [])}
                is_keyed = "Idempotency-Key" in names
                found[operation["operationId"]] = (method.upper(), path, is_keyed)
    return found


def call(face: Face, client: Any, names: str) -> None:
    """Calls a method with something for each argument that it needs."""
    method = client
    for name in names.split("."):
        method = getattr(method, name)
    needed = [it for it in inspect.signature(method).parameters.values() if it.default is it.empty]
    given = [it.name for it in needed if it.kind is it.POSITIONAL_OR_KEYWORD]
    places = [b"a file" if name == "content" else f"{name}-1" for name in given]
    named = {it.name: "x" for it in needed if it.kind is it.KEYWORD_ONLY}
    value = method(*places, **named)
    if inspect.isawaitable(value):
        face.run(value)
    else:
        face.take(value, 1)


def test_every_operation_is_reached(face: Face, document: Any) -> None:
    known = operations(document)
    assert len(known) > 80
    assert set(NAMES) == set(known)
    with fake(otherwise=refused(418, "TEAPOT")) as server:
        client = face.client(server.url, "the key", admin_token="the token")
        for id, names in NAMES.items():
            if names.startswith("same as "):
                continue
            server.seen.clear()
            with pytest.raises(PostriderError):
                call(face, client, names)
            [seen] = server.seen
            method, path, is_keyed = known[id]
            pattern = re.sub(r"{(\w+)}", r"\1-1", path)
            assert (seen.method, seen.path.split("?")[0]) == (method, pattern), id
            token = "the token" if path.startswith("/admin/") else "the key"
            assert seen.headers["authorization"] == f"Bearer {token}", id
            # The server does not look at the key of others, so they are not repeated either.
            assert ("idempotency-key" in seen.headers) == is_keyed, id


def test_a_second_path_is_the_same_operation(document: Any) -> None:
    known = operations(document)
    for id, names in NAMES.items():
        if names.startswith("same as "):
            here, there = known[id], known[names.removeprefix("same as ")]
            paths = [path.replace("/v1/messaging/", "/v1/") for path in (here[1], there[1])]
            assert paths[0] == paths[1]
            assert (here[0], here[2]) == (there[0], there[2])


def test_both_clients_have_the_same_methods() -> None:
    from postrider._generated import async_resources, resources

    def public(module: Any) -> set[str]:
        return {
            f"{name.removeprefix('Async')}.{method}{inspect.signature(value)}".replace(
                "Async", ""
            ).split(" ->")[0]
            for name, kind in vars(module).items()
            if inspect.isclass(kind) and kind.__module__ == module.__name__
            for method, value in vars(kind).items()
            if inspect.isfunction(value) and not method.startswith("_")
        }

    assert public(resources) == public(async_resources)
    assert len(public(resources)) > 80
