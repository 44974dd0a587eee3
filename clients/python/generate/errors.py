"""Writes a class for each code of an error."""

from .document import Document, class_name, literal

HEAD = '''"""Errors by their code. Made from /openapi.json; do not edit."""

from typing import Literal

from .._errors import PostriderError

'''


def write(document: Document) -> str:
    codes = document.codes()
    names = {code: class_name(code.lower()).removesuffix("Error") + "Error" for code in codes}
    classes = "".join(
        f'\nclass {name}(PostriderError):\n    """The server refused with `{code}`."""\n\n'
        for code, name in names.items()
    )
    rows = "".join(f'    "{code}": {name},\n' for code, name in names.items())
    every = sorted([*names.values(), "ErrorCode"])
    return (
        f"{HEAD}ErrorCode = {literal(codes)}\n{classes}\n"
        f"BY_CODE: dict[str, type[PostriderError]] = {{\n{rows}}}\n\n__all__ = {every!r}\n"
    )
