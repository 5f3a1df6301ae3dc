# SPDX-License-Identifier: MIT
"""Reading a study file key by key, so that every error names the file, the key and what was
expected there.

A `Table` remembers which keys it was asked for; `done` refuses the others and names the nearest key
that it knows.
"""

from __future__ import annotations

import contextlib
import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cffem.symbols.errors import InputError, nearest

MISSING: Any = object()


class StudyFileError(InputError):
    """A study file that does not say what a study is; the message names the file and the key."""


class Table:
    """A table of a study file.

    Args:
        content: the table as TOML gave it.
        file: the name of the file, for messages.
        where: the key of the table within the file.

    Example:
        >>> table = Table({"epsilom": 1e-3}, "study.toml", "certification")
        >>> table.number("epsilon", default=1e-3)
        0.001
        >>> table.done()
        Traceback (most recent call last):
        ...
        cffem.study.toml.study_keys.StudyFileError: study.toml: certification.epsilom is not a key
            of a study; did you mean 'epsilon'?
    """

    def __init__(self, content: object, file: str, where: str = ""):
        self.file, self.where = file, where
        if not isinstance(content, dict):
            raise StudyFileError(f"{file}: {where} must be a table, not {shown(content)}")
        self.content = content
        self.known: list[str] = []

    def key(self, name: str) -> str:
        """A key of this table within the file."""
        return f"{self.where}.{name}" if self.where else name

    def refuse(self, name: str, expected: str) -> StudyFileError:
        """The error that a key does not hold what is expected."""
        return StudyFileError(
            f"{self.file}: {self.key(name)} must be {expected}, not {shown(self.content[name])}"
        )

    @contextlib.contextmanager
    def naming(self, name: str = "") -> Iterator[None]:
        """Errors of what a key says get the file and the key in front."""
        try:
            yield
        except StudyFileError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            where = self.key(name) if name else self.where
            before = f"{self.file}: {where}: " if where else f"{self.file}: "
            raise StudyFileError(f"{before}{' '.join(str(error).split())}") from None

    def __contains__(self, name: str) -> bool:
        self.known.append(name)
        return name in self.content

    def get(self, name: str, default: object = MISSING) -> Any:
        """The value of a key."""
        self.known.append(name)
        if name in self.content:
            return self.content[name]
        if default is MISSING:
            where = f" of {self.where}" if self.where else ""
            others = [other for other in self.content if other not in self.known]
            alike = difflib.get_close_matches(name, others, n=1)
            hint = f"; there is {alike[0]!r}, is it misspelt?" if alike else ""
            raise StudyFileError(f"{self.file}: the key {name!r}{where} is missing{hint}")
        return default

    def _checked(
        self, name: str, default: object, good: Callable[[Any], bool], expected: str
    ) -> Any:
        """A value that is refused where the file gives one of another kind; a default is not
        looked at.
        """
        value = self.get(name, default)
        if name in self.content and not good(value):
            raise self.refuse(name, expected)
        return value

    def text(self, name: str, default: object = MISSING) -> Any:
        """A string."""
        return self._checked(name, default, lambda value: isinstance(value, str), "text")

    def choice(self, name: str, options: Sequence[str], default: object = MISSING) -> Any:
        """One of some words."""
        value = self.text(name, default)
        if name in self.content and value not in options:
            raise StudyFileError(
                f"{self.file}: {self.key(name)} cannot be {value!r}; {nearest(value, options)}"
            )
        return value

    def number(self, name: str, default: object = MISSING) -> Any:
        """A finite number."""
        return self._checked(name, default, is_number, "a finite number")

    def whole(self, name: str, default: object = MISSING, most: int = 10**9) -> Any:
        """A whole number, not negative and not larger than a limit."""

        def whole(value: object) -> bool:
            return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most

        return self._checked(name, default, whole, f"a whole number from 0 to {most}")

    def flag(self, name: str, default: object = MISSING) -> Any:
        """True or false."""
        return self._checked(name, default, lambda value: isinstance(value, bool), "true or false")

    def table(self, name: str, default: object = MISSING) -> Table:
        """A table within this one; an empty one where the default says so."""
        return Table(self.get(name, default), self.file, self.key(name))

    def tables(self, name: str, default: object = MISSING, most: int = 100) -> list[Table]:
        """A list of tables."""
        value = self.get(name, default)
        if not isinstance(value, list) or len(value) > most:
            raise self.refuse(
                name, f"a list of at most {most} tables, written [[{self.key(name)}]]"
            )
        return [Table(item, self.file, f"{self.key(name)}[{k}]") for k, item in enumerate(value, 1)]

    def entries(self, most: int = 500) -> Iterator[str]:
        """All keys of a table whose keys are the user's own names."""
        if len(self.content) > most:
            raise StudyFileError(
                f"{self.file}: {self.where} has {len(self.content)} entries; a study file may "
                f"have {most}"
            )
        self.known += list(self.content)
        yield from self.content

    def done(self) -> None:
        """Refuse keys that nobody asked for."""
        for name in self.content:
            if name not in self.known:
                raise StudyFileError(
                    f"{self.file}: {self.key(name)} is not a key of a study; "
                    f"{nearest(name, sorted(set(self.known)))}"
                )


def is_number(value: object) -> bool:
    """Whether a value is a number that a floating-point number can hold.

    Example:
        >>> is_number(3), is_number(True), is_number(float("nan")), is_number(10**400)
        (True, False, False, False)
    """
    try:
        return (
            isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        )
    except OverflowError:
        return False


def shown(value: object) -> str:
    """A value in a message, short."""
    text = "a very large number" if isinstance(value, int) and abs(value) > 10**60 else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
