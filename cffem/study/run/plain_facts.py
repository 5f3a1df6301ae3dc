# SPDX-License-Identifier: MIT
"""Facts as JSON's own types and back: one rule for all of them, by the types of their fields.

A fact is a frozen dataclass that derives from `PlainFact`. Numbers, words and None are what they
are; tuples become lists, mappings and other facts become objects. A field whose name in JSON is
another one (`lambda` is no name in Python) is named in `PLAIN_NAMES`.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class StoredFact(Protocol):
    """What a checkpoint can keep."""

    def to_plain(self) -> dict[str, object]:
        """As JSON's own types."""

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The fact that `to_plain` wrote."""


class PlainFact:
    """What a station finds out and hands on: a frozen dataclass that JSON can carry.

    Attributes:
        PLAIN_NAMES: the names in JSON of fields that are called otherwise there.

    Example:
        >>> @dataclasses.dataclass(frozen=True)
        ... class Size(PlainFact):
        ...     rows: int
        ...     names: tuple[str, ...] = ()
        >>> Size(3, ("a", "b")).to_plain()
        {'rows': 3, 'names': ['a', 'b']}
        >>> Size.from_plain({"rows": 3, "names": ["a", "b"]})
        Size(rows=3, names=('a', 'b'))
    """

    PLAIN_NAMES: ClassVar[Mapping[str, str]] = {}

    def to_plain(self) -> dict[str, object]:
        """As JSON's own types."""
        return {
            self.PLAIN_NAMES.get(field, field): as_plain(getattr(self, field))
            for field, _ in fields_of(type(self))
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Self:
        """The fact that `to_plain` wrote."""
        kinds = dict(fields_of(cls))
        names = {field: cls.PLAIN_NAMES.get(field, field) for field in kinds}
        return cls(
            **{
                field: as_typed(plain[name], kinds[field])
                for field, name in names.items()
                if name in plain
            }
        )


def fields_of(kind: type) -> list[tuple[str, Any]]:
    """The fields of a fact with their types."""
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(cast("type[DataclassInstance]", kind))
    return [(field.name, hints[field.name]) for field in fields]


def as_plain(value: Any) -> Any:
    """A value as JSON's own types."""
    if hasattr(value, "to_plain"):
        return value.to_plain()
    if dataclasses.is_dataclass(value):
        return {name: as_plain(entry) for name, entry in vars(value).items()}
    if isinstance(value, Mapping):
        return {str(key): as_plain(entry) for key, entry in value.items()}
    if isinstance(value, tuple | list):
        return [as_plain(entry) for entry in value]
    return str(value) if isinstance(value, Enum) else value


def as_typed(value: Any, kind: Any) -> Any:
    """A value of this type from JSON's own."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return as_typed(value, next(part for part in inner if part is not types.NoneType))
    if origin is tuple:
        kinds = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(as_typed(entry, part) for entry, part in zip(value, kinds, strict=True))
    if origin is not None and issubclass(origin, Mapping):
        return {key: as_typed(entry, inner[1]) for key, entry in value.items()}
    if isinstance(kind, type) and hasattr(kind, "from_plain"):
        return kind.from_plain(value)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return kind(**value)
    return value
