# SPDX-License-Identifier: MIT
"""Data of an experiment that are known up to a few amplitudes: g + Σ_k a_k φ_k in a stated basis.

A fit to readings estimates the amplitudes beside the coefficients, and what sensors tell of
coefficients is counted after the amplitudes have taken their part: they are nuisance columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import cast

import numpy as np
import sympy as sp

from cffem.symbols.coordinates import t
from cffem.symbols.errors import InputError
from cffem.symbols.expression_like import DataLike
from cffem.symbols.fields import Field

MOST_MODES = 60  # a basis beyond this is not small


@dataclass(frozen=True, eq=False)
class Uncertain:
    """Initial or boundary values that are known up to amplitudes of a small basis.

    The values that the experiment gives are the mean; amplitudes that are zero leave them as they
    are.

    Args:
        field: u for initial or boundary values of a field, dt(u) for an initial rate.
        basis: functions φ_k: a list of expressions (tuples for a vector), or a mapping that names
            them; or how many of the lowest modes of the Laplacian on the mesh, each with the root
            mean square one and zero where values are prescribed.
        on: None for initial values; else the part of the boundary where the values are prescribed,
            by `Dirichlet` or `Tangential`.
        deviation: the standard deviation of the amplitudes before anything is measured, a number or
            one for each; None where nothing is known, which asks more of the sensors.

    Example:
        >>> import cffem as cf, sympy as sp
        >>> u = cf.ScalarField("u")
        >>> start = cf.Uncertain(u, [sp.sin(sp.pi * cf.x), sp.sin(2 * sp.pi * cf.x)], deviation=0.1)
        >>> start.labels
        ('u at start 1', 'u at start 2')
    """

    field: sp.Expr
    basis: int | Sequence[DataLike] | Mapping[str, DataLike]
    on: str | None = None
    deviation: float | Sequence[float] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.unknown, Field) or (self.is_rate and self.on is not None):
            raise InputError(
                "Uncertain takes a field u, or its rate dt(u) for initial values, not "
                f"{self.field!r}"
            )
        if self.on is not None and not (isinstance(self.on, str) and self.on):
            raise InputError(f"on is the name of a part of the boundary, not {self.on!r}")
        if isinstance(self.basis, bool) or not (
            isinstance(self.basis, Integral | Mapping | Sequence)
            and not isinstance(self.basis, str)
        ):
            raise InputError(
                "the basis of uncertain values is a list of functions of x, y, z (and t on a "
                f"boundary), or how many modes of the mesh, not {self.basis!r}"
            )
        if not 1 <= len(self) <= MOST_MODES:
            raise InputError(
                f"the basis of {self.what} has {len(self)} functions; give 1 to {MOST_MODES}"
            )
        if self.on is not None and self.modes:
            raise InputError(
                "modes of the mesh are for initial values; give functions on a boundary"
            )
        self._check_functions()
        self._check_deviation()

    def _check_functions(self) -> None:
        from cffem.symbols.problem.experiment import check_data
        from cffem.symbols.problem.measured import as_data

        for label, function in zip(self.labels, self.functions, strict=False):
            check_data(as_data(function), f"the function of {label}")
            parts = function if isinstance(function, tuple | list) else (function,)
            if self.on is None and any(isinstance(p, sp.Basic) and p.has(t) for p in parts):
                raise InputError(f"the function of {label} is one of the start, without t")

    def _check_deviation(self) -> None:
        if self.deviation is None:
            return
        try:
            spread = np.broadcast_to(np.asarray(self.deviation, dtype=float), (len(self),))
        except (TypeError, ValueError):
            spread = np.zeros(1)
        if not (np.isfinite(spread).all() and (spread > 0).all()):
            raise InputError(
                f"the deviation of {self.what} is a positive number, or {len(self)} of them, not "
                f"{self.deviation!r}"
            )

    @property
    def is_rate(self) -> bool:
        """Whether it is the rate of a field that is uncertain."""
        return isinstance(self.field, sp.Derivative) and set(self.field.variables) == {t}

    @property
    def unknown(self) -> Field:
        """The field."""
        return cast("Field", self.field.expr if self.is_rate else self.field)  # type: ignore[attr-defined]

    @property
    def modes(self) -> bool:
        """Whether the basis is made of modes of the mesh."""
        return isinstance(self.basis, Integral)

    def __len__(self) -> int:
        return int(self.basis) if isinstance(self.basis, int | Integral) else len(self.basis)

    @property
    def functions(self) -> tuple[DataLike, ...]:
        """The functions that were given; empty for modes of the mesh."""
        if isinstance(self.basis, int | Integral):
            return ()
        given = self.basis.values() if isinstance(self.basis, Mapping) else self.basis
        return tuple(given)

    @property
    def what(self) -> str:
        """What is uncertain, for people."""
        return f"{self.field} " + ("at start" if self.on is None else f"on {self.on}")

    @property
    def labels(self) -> tuple[str, ...]:
        """The name of each amplitude."""
        if isinstance(self.basis, Mapping):
            return tuple(f"{self.what}: {name}" for name in self.basis)
        return tuple(f"{self.what} {k + 1}" for k in range(len(self)))

    @property
    def deviations(self) -> tuple[float, ...]:
        """The prior deviation of each amplitude; infinite where there is none."""
        spread = np.inf if self.deviation is None else np.asarray(self.deviation, dtype=float)
        return tuple(map(float, np.broadcast_to(spread, (len(self),))))

    def __repr__(self) -> str:
        kind = "modes of the mesh" if self.modes else "functions"
        prior = "no prior" if self.deviation is None else f"deviation {self.deviation}"
        return f"Uncertain({self.what}: {len(self)} {kind}, {prior})"


def checked_uncertain(
    given: Uncertain | Iterable[Uncertain], elements: Mapping[Field, object]
) -> tuple[Uncertain, ...]:
    """The uncertain data of an experiment, one or several."""
    found = (given,) if isinstance(given, Uncertain) else tuple(given)
    labels: list[str] = []
    for each in found:
        if not isinstance(each, Uncertain):
            raise InputError(f"uncertain takes cf.Uncertain(u, basis), not {each!r}")
        if each.unknown not in elements:
            raise InputError(f"{each.unknown} is uncertain, but has no element here")
        labels += each.labels
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise InputError(f"{twice} is uncertain twice; say it once, with all its functions")
    return found
