# SPDX-License-Identifier: MIT
"""Registries: the open lists of the package, to which others add without editing it.

Time schemes, norms, certifiers, deletion strategies, projections, screening methods and readers of
data files each have one. Names in studies and in error messages come from them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from cffem.symbols.errors import InputError

Item = TypeVar("Item")


class Registry(Mapping[str, Item], Generic[Item]):
    """Things of one kind by name, in the order in which they were added.

    Args:
        kind: what they are called in a message, such as "scheme".

    Example:
        >>> numbers = Registry[int]("number")
        >>> numbers.add("one", 1)
        1
        >>> numbers["won"]
        Traceback (most recent call last):
        ...
        cffem.symbols.errors.InputError: unknown number 'won'; did you mean one? There are one
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._items: dict[str, Item] = {}

    def add(self, name: str, item: Item) -> Item:
        """Add one; its name must be new.

        Raises:
            InputError: the name is taken, or is no text.
        """
        if not isinstance(name, str) or not name:
            raise InputError(f"a {self.kind} needs a name, not {name!r}")
        if name in self._items:
            raise InputError(f"there is a {self.kind} {name!r} already; choose another name")
        self._items[name] = item
        return item

    def remove(self, name: str) -> None:
        """Take one out again."""
        self[name]
        del self._items[name]

    def latest_first(self) -> list[Item]:
        """All of them, the last added first: what was added from outside is asked first."""
        return list(self._items.values())[::-1]

    def __getitem__(self, name: str) -> Item:
        if name not in self._items:
            near = difflib.get_close_matches(str(name), self._items, n=1)
            hint = f"did you mean {near[0]}? There are" if near else "there are"
            raise InputError(f"unknown {self.kind} {name!r}; {hint} {', '.join(self._items)}")
        return self._items[name]

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"Registry({self.kind}: {', '.join(self._items)})"
