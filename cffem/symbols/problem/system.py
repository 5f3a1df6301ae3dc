# SPDX-License-Identifier: MIT
"""Coupled equations: one library per unknown, with terms named by field and term, "u/lap".

A system answers the same questions as a library, so that whoever works with one works with the
other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import sympy as sp

from cffem.symbols import term_tables as tables
from cffem.symbols.coordinates import Parameter
from cffem.symbols.errors import LibraryError, nearest
from cffem.symbols.expression_like import ExpressionLike
from cffem.symbols.fields import Field
from cffem.symbols.problem.library import Library
from cffem.symbols.problem.term_checks import check_fields

if TYPE_CHECKING:
    pass


class System(Mapping[str, sp.Expr]):
    """Several libraries, each for its own unknown.

    Args:
        libraries: by the name of the unknown (or the field itself).

    Example:
        >>> import cffem as cf
        >>> from cffem.symbols import Library, System
        >>> u, v = cf.ScalarField("u"), cf.ScalarField("v")
        >>> activator = Library(anchor=cf.dt(u), terms={"lap": cf.lap(u), "uv": u*v})
        >>> inhibitor = Library(anchor=cf.dt(v), terms={"u": u, "v": v})
        >>> system = System({"u": activator, "v": inhibitor})
        >>> system.names
        ('u/lap', 'u/uv', 'v/u', 'v/v')
        >>> system.without("v/u").names
        ('u/lap', 'u/uv', 'v/v')
    """

    __slots__ = ("_libraries",)
    _libraries: dict[str, Library]

    def __init__(self, libraries: Mapping[str | Field, Library]):
        if not libraries:
            raise LibraryError("a system needs at least one library")
        checked: dict[str, Library] = {}
        for key, library in libraries.items():
            name = key.name if isinstance(key, Field) else key
            if not isinstance(library, Library):
                raise LibraryError(
                    f"the system's entry {key!r} is a {type(library).__name__}, not a Library"
                )
            if name in checked:
                raise LibraryError(f"the system has two libraries called {name!r}")
            clash = next(
                (k for k, other in checked.items() if other.unknown == library.unknown), None
            )
            if clash is not None:
                raise LibraryError(
                    f"the libraries {clash!r} and {name!r} are both for {library.unknown}; each "
                    "unknown has one"
                )
            if name != library.unknown.name:
                raise LibraryError(
                    f"the library called {name!r} is for the field {library.unknown}; call it "
                    f"{library.unknown.name!r}"
                )
            checked[name] = library
        check_fields(
            (f"library {name!r}", expr)
            for name, library in checked.items()
            for expr in library.expressions
        )
        _common_parameters(checked)
        object.__setattr__(self, "_libraries", checked)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a System never changes; use without, restrict or with_terms")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a System never changes; use without, restrict or with_terms")

    def __reduce__(self) -> tuple[object, ...]:
        return System, (dict(self._libraries),)

    def __eq__(self, other: object) -> bool:
        return (
            list(self._libraries.items()) == list(other._libraries.items())
            if isinstance(other, System)
            else NotImplemented
        )

    def __hash__(self) -> int:
        return hash(tuple(self._libraries.items()))

    def __getitem__(self, name: str) -> sp.Expr:
        if name not in self.names:
            raise KeyError(f"no term is called {name!r}; {nearest(name, self.names)}")
        return self.terms[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def libraries(self) -> Mapping[str, Library]:
        """The libraries by the name of their unknown."""
        return MappingProxyType(self._libraries)

    @property
    def equations(self) -> Mapping[Field, Library]:
        """The equations by unknown."""
        return MappingProxyType({library.unknown: library for library in self._libraries.values()})

    @property
    def anchors(self) -> Mapping[Field, sp.Expr | None]:
        """The anchors by unknown."""
        return MappingProxyType(
            {library.unknown: library.anchor for library in self._libraries.values()}
        )

    @property
    def terms(self) -> Mapping[str, sp.Expr]:
        """All terms by full name."""
        return MappingProxyType(
            {
                f"{k}/{name}": e
                for k, library in self._libraries.items()
                for name, e in library.items()
            }
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The full names of all terms, equation by equation."""
        return tuple(f"{k}/{name}" for k, library in self._libraries.items() for name in library)

    @property
    def unknowns(self) -> tuple[Field, ...]:
        """The unknown of each equation."""
        return tuple(library.unknown for library in self._libraries.values())

    @property
    def fields(self) -> tuple[Field, ...]:
        """Every field that occurs, the unknowns first."""
        others = {f for library in self._libraries.values() for f in library.fields} - {
            *self.unknowns
        }
        return (*self.unknowns, *sorted(others, key=str))

    @property
    def parameters(self) -> Mapping[Parameter, float | None]:
        """The parameters that occur, each with its value or None."""
        return MappingProxyType(_common_parameters(self._libraries))

    @property
    def dim(self) -> int | None:
        """The dimension of space where one of the libraries tells it."""
        return next(
            (library.dim for library in self._libraries.values() if library.dim is not None), None
        )

    @property
    def time_order(self) -> int:
        """The highest order of time derivatives among the anchors."""
        return max(library.time_order for library in self._libraries.values())

    def locate(self, name: str) -> tuple[Field, str]:
        """The unknown of the equation a term belongs to, and the term's name there."""
        self[name]
        key, _, short = name.partition("/")
        return self._libraries[key].unknown, short

    def dependence(self, name: str, fields: Collection[Field] | None = None) -> str:
        """How a term depends on the given fields together (default: all of the system's)."""
        unknown, short = self.locate(name)
        return self.equations[unknown].dependence(short, self.fields if fields is None else fields)

    def order(self, name: str) -> int:
        """The highest order of space derivatives in a term."""
        unknown, short = self.locate(name)
        return self.equations[unknown].order(short)

    def check(self, dim: int) -> None:
        """Check every library again where the dimension of space is known."""
        for library in self._libraries.values():
            library.check(dim)

    def without(self, *names: str) -> System:
        """The system with these terms left out."""
        self._refuse_unknown(names)
        return self.restrict([name for name in self.names if name not in names])

    def restrict(self, names: Iterable[str]) -> System:
        """The system with only these terms; every equation stays, if need be with an empty
        right-hand side.
        """
        kept = list(names)
        self._refuse_unknown(kept)
        return System(
            {
                k: lib.restrict([n for n in lib if f"{k}/{n}" in kept])
                for k, lib in self._libraries.items()
            }
        )

    def with_terms(self, terms: Mapping[str, ExpressionLike]) -> System:
        """The system with more terms, given by full name."""
        new: dict[str, dict[str, sp.Expr]] = {k: {} for k in self._libraries}
        for name, expr in terms.items():
            key, slash, short = str(name).partition("/")
            if not slash or key not in new:
                raise LibraryError(
                    f"a system's term is called field/term, and {name!r} names no field; "
                    f"{nearest(key, new)}"
                )
            new[key][short] = expr
        return System(
            {k: lib.with_terms(new[k]) if new[k] else lib for k, lib in self._libraries.items()}
        )

    def _refuse_unknown(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.names:
                raise LibraryError(f"no term is called {name!r}; {nearest(name, self.names)}")

    def _blocks(self) -> list[tuple[sp.Expr | None, list[tables.Row]]]:
        blocks = []
        for key, library in self._libraries.items():
            full = [f"{key}/{name}" for name in library]
            blocks.append(
                (
                    library.anchor,
                    [tables.Row(n, self[n], self.dependence(n), self.order(n)) for n in full],
                )
            )
        return blocks

    def __str__(self) -> str:
        return "\n".join(tables.as_text(anchor, rows) for anchor, rows in self._blocks())

    def __repr__(self) -> str:
        return f"System({self._libraries!r})"

    def _repr_latex_(self) -> str:
        return tables.as_latex(self._blocks())

    def _repr_html_(self) -> str:
        return tables.as_html(self._blocks())


def _common_parameters(libraries: Mapping[str, Library]) -> dict[Parameter, float | None]:
    """The parameters of all libraries, which must not give one of them two values."""
    values: dict[Parameter, float | None] = {}
    for library in libraries.values():
        for parameter, value in library.parameters.items():
            known = values.get(parameter)
            if known is not None and value is not None and known != value:
                raise LibraryError(
                    f"the parameter {parameter} has the value {known} in one library and {value} "
                    "in another"
                )
            values[parameter] = value if known is None else known
    return values
