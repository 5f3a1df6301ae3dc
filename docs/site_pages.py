"""Pages of the site that are made from the package: the gallery, and the reference of names, commands,
reasons and the schema of reports.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

# Demos that fetch data, or take many minutes.
NOT_EXECUTED = ("ocean", "currents")


def write(top: Path, docs: Path) -> None:
    """Write all generated pages below `gallery/` and `reference/`."""
    gallery(top, docs / "gallery")
    reference = docs / "reference"
    reference.mkdir(exist_ok=True)
    names(docs / "names.md", reference / "python.md")
    keep(reference / "commands.md", commands())
    keep(reference / "codes.md", codes())
    keep(reference / "schema.md", schema(top))
    for name in ("CHANGELOG", "CONTRIBUTING"):
        text = (top / f"{name}.md").read_text().replace("](docs/", "](")
        keep(docs / f"{name.lower()}.md", text)


def keep(path: Path, text: str) -> None:
    """Write a page only where it changes, so that Sphinx reads again only what is new."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def gallery(top: Path, folder: Path) -> None:
    """One notebook for each demo, and their list."""
    import jupytext

    folder.mkdir(exist_ok=True)
    table = (top / "demos" / "README.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", table, flags=re.M)
    listed = []
    for name, what in rows:
        path = top / "demos" / f"demo_{name}.py"
        notebook = jupytext.read(path)
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
        notebook.metadata["language_info"] = {"name": "python", "pygments_lexer": "ipython3"}
        notebook.cells.append(jupytext_cell(name))
        keep(folder / f"{name}.ipynb", deterministic(notebook))
        listed.append((name, what))
    items = "\n".join(f"* [{name}]({name}.ipynb): {what}" for name, what in listed)
    tree = "\n".join(name for name, _ in listed)
    keep(
        folder / "index.md",
        "# Gallery\n\nEach demo reads as an article and checks its own claims. `cffem demo NAME` runs one, and\n"
        "`mpirun -n 4 cffem demo NAME` runs it on four ranks. What you see below was computed when this\n"
        f"site was built, except for {' and '.join(NOT_EXECUTED)}, which fetch their data.\n\n{items}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n",
    )


def jupytext_cell(name: str):
    from nbformat.v4 import new_markdown_cell

    return new_markdown_cell(f"*The script is `demos/demo_{name}.py`; `cffem demo {name}` runs it.*")


def deterministic(notebook) -> str:
    """The notebook as text, with the same cell names every time."""
    from nbformat import writes

    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
    return writes(notebook)


def names(source: Path, target: Path) -> None:
    """Every public name with its docstring, grouped as docs/names.md does."""
    import cffem

    parts = ["# Python\n\nEverything that `import cffem as cf` offers. The "
             "[short list](../names.md) has them on one page.\n"]
    for title, words in re.findall(r"^\| ([a-z ]+) \| (.+) \|$", source.read_text(), flags=re.M):
        if title == "for":
            continue
        parts.append(f"\n## {title.capitalize()}\n")
        for name in dict.fromkeys(re.findall(r"`cf\.(\w+)`", words)):
            parts.append(entry(cffem, name))
    keep(target, "\n".join(parts))


def entry(package, name: str) -> str:
    """The directive that shows one public name."""
    thing = getattr(package, name)
    if name == "mesh":
        return f"```{{eval-rst}}\n.. automodule:: {thing.__name__}\n   :members:\n   :no-index:\n```\n"
    if isinstance(thing, type):
        kind = "autoexception" if issubclass(thing, BaseException) else "autoclass"
    elif callable(thing) and hasattr(thing, "__name__"):
        kind = "autofunction"
    else:
        return f"`cf.{name}`\n: `{thing!r}`\n"
    return f"```{{eval-rst}}\n.. {kind}:: cffem.{name}\n```\n"


def as_restructured(app, what, name, thing, options, lines: list[str]) -> None:
    """Docstrings for Sphinx: `code` with letters right behind it, and bars, which mean something else
    in reStructuredText.
    """
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = re.split(r"(`[^`]+`)", line)
        parts[::2] = [part.replace("|", "\\|") for part in parts[::2]]
        for k in range(1, len(parts), 2):
            close = "\\ " if parts[k + 1][:1].isalnum() else ""
            parts[k] = f"`{parts[k]}`{close}"
        lines[number] = "".join(parts)


def commands() -> str:
    """The command line, from its parser."""
    from cffem.cli import build_parser

    parser = build_parser()
    action = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    helps = {choice.dest: choice.help for choice in action._choices_actions}
    parts = ["# Commands\n\nEach works the same under `mpirun -n N`.\n"]
    for name, command in action.choices.items():
        parts.append(f"## cffem {name}\n\n{(helps.get(name) or '').capitalize()}.\n")
        parts.append(f"```text\n{command.format_help()}```\n")
    parts.append(
        "## Exit codes\n\n| code | meaning |\n|---|---|\n| 0 | finished |\n| 2 | the input cannot be used; one sentence says why |\n"
        "| 75 | ended by Ctrl-C, SIGTERM or SIGUSR1; `--resume` goes on |\n| 1 | anything else |\n"
    )
    return "\n".join(parts)


def codes() -> str:
    """Reasons, from the table that `cffem explain` prints."""
    from cffem.symbols.reasons import EXPLAINED

    rows = "\n".join(f"## {code}\n\n{text}\n" for code, text in EXPLAINED.items())
    return (
        "# Reason codes\n\nA verdict that could not be reached has a reason with a code, in `report.json` and in\n"
        "`TermReport.code`. `cffem explain CODE` prints the same text.\n\n" + rows
    )


def schema(top: Path) -> str:
    """The JSON schema of a report, as a table of its first two levels."""
    plain = json.loads((top / "cffem" / "study" / "report" / "report.schema.json").read_text())
    parts = [
        "# The report\n\n`report.json` follows the JSON schema `cffem/study/report/report.schema.json`, which is installed with\n"
        "the package. Every section is always there; one that was skipped holds `{\"skipped\": reason}`.\n\n| section | holds |\n|---|---|"
    ]
    for key, value in plain.get("properties", {}).items():
        parts.append(f"| `{key}` | {value.get('description', '') or kinds(value, plain)} |")
    return "\n".join(parts) + "\n"


def kinds(value: dict, plain: dict) -> str:
    """What a section holds where the schema has no words for it: the names of its entries."""
    if "$ref" in value:
        value = plain.get("$defs", plain.get("definitions", {})).get(value["$ref"].split("/")[-1], {})
    for option in value.get("anyOf", value.get("oneOf", [])):
        found = kinds(option, plain)
        if found:
            return found
    inner = value.get("properties") or value.get("items", {}).get("properties") or {}
    return ", ".join(f"`{name}`" for name in inner) or str(value.get("type", ""))
