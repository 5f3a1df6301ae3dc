# SPDX-License-Identifier: MIT
"""The text of a study file: its size and structure are checked before Python's reader takes it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cffem._files import require_file
from cffem.study.toml.study_keys import StudyFileError
from cffem.symbols.errors import InputError

if TYPE_CHECKING:
    pass


MOST_BYTES, MOST_TERMS, MOST_STEPS, MOST_DEGREE = 1_000_000, 200, 1_000_000, 8


MOST_DEPTH, MOST_KEYS, MOST_ENTRIES = 10, 10_000, 100_000


def file_text(path: Path) -> str:
    """The text of a study file, refused if it is no ordinary file or too large."""
    try:
        require_file(path)
    except InputError:
        raise InputError(f"there is no file {path}") from None
    if path.stat().st_size > MOST_BYTES:
        raise StudyFileError(f"{path.name}: a study file has at most {MOST_BYTES} bytes")
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise StudyFileError(f"{path.name}: this is not text in UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None


# Strings and comments of TOML, also those without an end; each is consumed whole, so that one pass
# over the text is enough.
QUOTED = re.compile(
    r'"""(?:[^"\\]|\\.|"(?!""))*+(?:"""|\Z)?|\'\'\'(?:[^\']|\'(?!\'\'))*+(?:\'\'\'|\Z)?'
    r'|"(?:[^"\\\n]|\\.)*+"?|\'[^\'\n]*+\'?|\#[^\n]*+',
    re.DOTALL,
)


DOTTED = re.compile(rf"(?<![\w-])[\w-]++(?:[ \t]*+\.[ \t]*+[\w-]++){{{MOST_DEPTH},}}")


def check_structure(text: str, name: str) -> None:
    """Refuse a file with deeper or more tables than a study has, before Python's reader takes
    gigabytes for them.

    Example:
        >>> check_structure("a." * 50 + "b = 1", "study.toml")
        Traceback (most recent call last):
        ...
        cffem.study.toml.study_keys.StudyFileError: study.toml: tables or lists are nested too
            deeply
    """
    bare = QUOTED.sub(lambda found: " " if found[0].startswith("#") else "S", text)
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", bare):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > MOST_DEPTH or DOTTED.search(bare):
        raise StudyFileError(f"{name}: tables or lists are nested too deeply")
    if bare.count("=") + bare.count("[") > MOST_KEYS or bare.count(",") > MOST_ENTRIES:
        raise StudyFileError(f"{name}: a study file has at most {MOST_KEYS} keys, tables and lists")


def override(content: dict[str, Any], pair: str) -> None:
    """Replace or add one key.

    Example:
        >>> study = {"experiments": [{"time": {"steps": 10}}]}
        >>> override(study, "experiments.1.time.steps=40")
        >>> study
        {'experiments': [{'time': {'steps': 40}}]}
    """
    key, equals, text = pair.partition("=")
    if not equals or not key.strip():
        raise InputError(f"--set takes key=value, not {pair!r}")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        value = text
    here: Any = content
    *path, last = key.strip().split(".")
    for name in path:
        if isinstance(here, list) and name.isdigit() and 1 <= int(name) <= len(here):
            here = here[int(name) - 1]
        elif isinstance(here, dict):
            here = here.setdefault(name, {})
        else:
            raise InputError(f"--set {key}: there is no {name!r} to go into")
    if not isinstance(here, dict):
        raise InputError(f"--set {key}: {last!r} is not in a table")
    here[last] = value
