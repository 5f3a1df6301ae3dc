# SPDX-License-Identifier: MIT
"""Tensors by their entries, and the functions of tensors that are not linear: determinant and
inverse.

With the deformation gradient F = I + grad(u) they say hyperelastic stresses as they are written:
det(F) is J, inv(F) is F⁻¹. Their derivatives are Jacobi's, d det(A) = det(A) tr(A⁻¹ dA) and
d(A⁻¹) = −A⁻¹ dA A⁻¹.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import sympy as sp

from cffem.symbols.algebra.nodes import ByEntries, Dot, TensorMap, TensorTrace
from cffem.symbols.algebra.normal_forms import NORMAL_FORMS
from cffem.symbols.algebra.shapes import Shape, rank_name, shape_of
from cffem.symbols.errors import ShapeError

if TYPE_CHECKING:
    from sympy.printing.printer import Printer


class Tensor(ByEntries):
    """A tensor given by its entries, row by row.

    It is never written out, because div(K grad u) has the flux K grad u through a boundary, and a
    sum of second derivatives has another.
    """

    __slots__ = ()
    symbol = "tensor"

    @classmethod
    def check(cls, *parts: sp.Expr) -> None:
        if len(parts) not in (1, 4, 9):
            raise ShapeError(f"a tensor has 1, 4 or 9 entries, not {len(parts)}")
        for part in parts:
            if shape_of(part) != ():
                raise ShapeError(
                    f"the entries of a tensor are scalars, but {part} is a "
                    f"{rank_name(shape_of(part))}"
                )

    @property
    def shape(self) -> Shape:
        return (math.isqrt(len(self.args)),) * 2

    @property
    def rows(self) -> list[tuple[sp.Expr, ...]]:
        """The entries, row by row."""
        size = math.isqrt(len(self.args))
        return [self.args[i : i + size] for i in range(0, len(self.args), size)]

    def _sympystr(self, printer: Printer) -> str:
        rows = (f"({', '.join(map(printer._print, row))})" for row in self.rows)
        return f"tensor({', '.join(rows)})"

    def _latex(self, printer: Printer) -> str:
        rows = r" \\ ".join(" & ".join(map(printer._print, row)) for row in self.rows)
        return rf"\begin{{pmatrix}}{rows}\end{{pmatrix}}"


class TensorFunction(TensorMap):
    """A function of a tensor that is not linear: it has a rule for its derivative."""

    __slots__ = ()

    def along(self, change: sp.Expr) -> sp.Expr:
        """The derivative where the tensor changes by this one."""
        raise NotImplementedError

    def _eval_derivative(self, s: sp.Basic) -> sp.Expr:
        if isinstance(s, sp.Symbol):
            change = self.args[0].diff(s)
            return self.along(change) if change != 0 else sp.S.Zero
        return sp.S.One if s == self else sp.S.Zero


class Det(TensorFunction):
    """Determinant of a tensor."""

    __slots__ = ()
    symbol = "det"
    latex_symbol = r"\det"

    @property
    def shape(self) -> Shape:
        return ()

    def along(self, change: sp.Expr) -> sp.Expr:
        return self * TensorTrace(Dot(Inverse(self.args[0]), change))


class Inverse(TensorFunction):
    """Inverse of a tensor."""

    __slots__ = ()
    symbol = "inv"

    @classmethod
    def vanishes(cls, *args: sp.Expr) -> bool:
        if args[0] == 0:
            raise ShapeError("the zero tensor has no inverse")
        return False

    def along(self, change: sp.Expr) -> sp.Expr:
        return -Dot(self, Dot(change, self))

    def _latex(self, printer: Printer) -> str:
        return rf"\left({printer._print(self.args[0])}\right)^{{-1}}"


def tensor_from(rows: Sequence[Sequence[sp.Expr]]) -> sp.Expr:
    """A tensor from its rows, each a sequence of numbers or scalar expressions."""
    entries = [tuple(row) if isinstance(row, tuple | list | sp.Tuple) else (row,) for row in rows]
    if any(len(row) != len(entries) for row in entries):
        sizes = ", ".join(str(len(row)) for row in entries)
        raise ShapeError(
            f"a tensor has as many rows as columns, not {len(entries)} rows of lengths {sizes}"
        )
    return Tensor(*(entry for row in entries for entry in row))


NORMAL_FORMS[sp.MatrixBase] = tensor_from
