"""`Any` says nothing about what a function takes or gives: there is little, and it gets less."""

from __future__ import annotations

import ast
from pathlib import Path

import cffem as cf

PACKAGE = Path(__file__).parents[2] / "cffem"
# The share of annotations and the public signatures that say `Any`, as they were last counted: they
# only ever fall.
ANYWHERE, PUBLIC = 0.0285, 12


def says_any(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(
        isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation)
    )


def annotations(node: ast.AST) -> list[ast.expr]:
    """The annotations of a function's arguments and result, or of a variable."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        a = node.args
        arguments = [*a.posonlyargs, *a.args, *a.kwonlyargs, a.vararg, a.kwarg]
        return [x.annotation for x in arguments if x is not None and x.annotation is not None] + (
            [node.returns] if node.returns is not None else []
        )
    return [node.annotation] if isinstance(node, ast.AnnAssign) else []


def everywhere() -> tuple[int, int]:
    """How many annotations there are in the package, and how many say `Any`."""
    found = [
        annotation
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for annotation in annotations(node)
    ]
    return len(found), sum(map(says_any, found))


def public_signatures() -> list[str]:
    """Where public functions, and methods and fields of public classes, say `Any`."""
    found = []
    for name, module in cf._HOME.items():
        path = PACKAGE.parent / (module.replace(".", "/") + ".py")
        path = path if path.exists() else path.with_suffix("") / "__init__.py"
        for node in ast.parse(path.read_text()).body:
            if getattr(node, "name", None) != name:
                continue
            members = node.body if isinstance(node, ast.ClassDef) else [node]
            for member in members:
                called = getattr(member, "name", "")
                hidden = called.startswith("_") and called != "__init__"
                if not hidden and any(map(says_any, annotations(member))):
                    field = ast.unparse(member.target) if isinstance(member, ast.AnnAssign) else ""
                    found.append(f"{name}.{called or field}" if members[0] is not node else name)
    return sorted(set(found))


def test_any_becomes_less():
    total, unknown = everywhere()
    assert unknown <= ANYWHERE * total, f"{unknown} of {total} annotations say Any"


def test_public_signatures_say_what_they_take():
    found = public_signatures()
    assert len(found) <= PUBLIC, "\n".join(found)
