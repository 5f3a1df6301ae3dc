# SPDX-License-Identifier: MIT
"""Known fields: materials, given velocities and measured coefficients inside terms.

A `Known` is a function of place, and if need be of time, whose values an experiment gives:
`cf.Experiment(known={k: {"glass": 2.25, "air": 1.0}})`. It is no unknown and no term, so it is
never solved for and never deleted. It may jump between cells; operators do not differentiate it
by the product rule, and `div(k*grad(u))` stays the divergence that it is. Where an experiment gives
a continuous function, its *smooth* twin stands for it, which has a gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import sympy as sp
from sympy.core.expr import AtomicExpr

from cffem.symbols.coordinates import COORDINATES
from cffem.symbols.errors import SymbolError
from cffem.symbols.fields import (
    RESERVED,
    CheckedArithmetic,
    CoordinateFunction,
    GuardedArithmetic,
)

if TYPE_CHECKING:
    from sympy.printing.printer import Printer


class Known(CoordinateFunction, AtomicExpr):
    """A given field inside terms, anchors, forcing, conditions and observables.

    Args:
        name: an identifier other than a coordinate's name.
        dim: None for a scalar, the number of components of a vector (`dim=2`), or the size of a
            square tensor (`dim=(2, 2)`).
        smooth: whether it has a gradient; an experiment decides that by the values it gives.

    Example:
        >>> import cffem as cf
        >>> k, w, u = cf.Known("k"), cf.Known("w", dim=2), cf.ScalarField("u")
        >>> cf.div(k * cf.grad(u)) - cf.dot(w, cf.grad(u))
        div(k*grad(u)) - dot(w, grad(u))
    """

    __slots__ = ("dim", "name", "smooth")
    name: str
    dim: int | tuple[int, int] | None
    smooth: bool

    def __new__(
        cls, name: str, dim: int | tuple[int, int] | None = None, *, smooth: bool = False
    ) -> Known:
        if not isinstance(name, str) or not name.isidentifier():
            raise SymbolError(f"a known field's name must be an identifier, not {name!r}")
        if name in RESERVED:
            raise SymbolError(
                f"a known field cannot be called {name!r}: that name is a coordinate or the normal"
            )
        obj = AtomicExpr.__new__(_kind_of(name, dim))
        obj.name = name
        obj.dim = tuple(int(d) for d in dim) if isinstance(dim, tuple | list) else dim
        obj.smooth = bool(smooth)
        return obj

    @property
    def shape(self) -> tuple[int, ...]:
        """() for a scalar, (d,) for a vector, (d, d) for a tensor."""
        return () if self.dim is None else self.dim if isinstance(self.dim, tuple) else (self.dim,)

    @property
    def twin(self) -> Known:
        """The same field with a gradient."""
        return Known(self.name, self.dim, smooth=True)

    @property
    def plain(self) -> Known:
        """The same field as users declare it."""
        return Known(self.name, self.dim)

    def __getnewargs_ex__(self) -> tuple[tuple[object, ...], dict[str, object]]:
        return (self.name, self.dim), {"smooth": self.smooth}

    def _hashable_content(self) -> tuple[object, ...]:
        return (self.name, str(self.dim), self.smooth)

    def __getstate__(self) -> None:
        return None

    def _subs(self, old: sp.Basic, new: sp.Basic, **hints: object) -> sp.Basic:
        if old in COORDINATES:
            raise SymbolError(
                f"{old} cannot be replaced by {new} in the known field {self}; give the values "
                "that are meant in the experiment"
            )
        return new if old == self else self

    def sort_key(self, order: object = None) -> tuple[object, ...]:
        return self.class_key(), (1, (self.name,)), sp.S.One.sort_key(), sp.S.One

    def _sympystr(self, printer: Printer) -> str:
        return self.name

    def _sympyrepr(self, printer: Printer) -> str:
        return f"Known({self.name!r}, dim={self.dim})"


class KnownScalar(GuardedArithmetic, Known):
    """A known scalar; made by `Known(name)`."""

    __slots__ = ()
    is_real = True
    is_extended_real = True
    is_complex = True
    is_finite = True

    def _latex(self, printer: Printer) -> str:
        return printer._deal_with_super_sub(self.name)


class KnownTensor(CheckedArithmetic, Known):
    """A known vector or tensor; made by `Known(name, dim=2)` or `Known(name, dim=(2, 2))`."""

    __slots__ = ()
    # SymPy takes apart whatever can be iterated over; a vector is one symbol.
    __iter__ = None

    def __getitem__(self, index: int | tuple[int, int]) -> KnownEntry:
        place = index if isinstance(index, tuple) else (index,)
        return KnownEntry(self, *place)

    def _latex(self, printer: Printer) -> str:
        return rf"\mathbf{{{printer._deal_with_super_sub(self.name)}}}"


class KnownEntry(GuardedArithmetic, CoordinateFunction):
    """One scalar entry of a known vector or tensor."""

    __slots__ = ()
    is_real = True
    is_extended_real = True
    is_complex = True
    is_finite = True

    def __new__(cls, known: Known, *index: int) -> KnownEntry:
        place = tuple(int(i) for i in index)
        if len(place) != len(known.shape) or not all(
            0 <= i < size for i, size in zip(place, known.shape, strict=True)
        ):
            raise IndexError(f"{known} has shape {known.shape} and no entry {list(place)}")
        return sp.Expr.__new__(cls, known, *map(sp.Integer, place))

    @property
    def known(self) -> Known:
        """The vector or tensor."""
        return self.args[0]

    @property
    def index(self) -> tuple[int, ...]:
        """Where the entry stands in it."""
        return tuple(int(i) for i in self.args[1:])

    @property
    def shape(self) -> tuple[int, ...]:
        return ()

    def _sympystr(self, printer: Printer) -> str:
        return f"{self.known.name}[{', '.join(map(str, self.index))}]"

    def _latex(self, printer: Printer) -> str:
        places = "".join("xyz"[i] for i in self.index)
        return f"{printer._deal_with_super_sub(self.known.name)}_{{{places}}}"


def _kind_of(name: str, dim: object) -> type[Known]:
    """The class for a dimension, which is checked."""
    if dim is None:
        return KnownScalar
    sizes = tuple(dim) if isinstance(dim, tuple | list) else (dim,)
    whole = all(isinstance(d, int) and not isinstance(d, bool) and d in (1, 2, 3) for d in sizes)
    if not whole or len(sizes) > 2 or len({*sizes}) != 1:
        raise SymbolError(
            f"the known field {name} is a scalar (no dim), a vector (dim=2) or a square tensor "
            f"(dim=(2, 2)), not dim={dim!r}"
        )
    return KnownTensor


def known_in(expr: sp.Basic) -> frozenset[Known]:
    """The known fields that occur in an expression."""
    return frozenset(expr.atoms(Known))
