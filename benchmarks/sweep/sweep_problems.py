# SPDX-License-Identifier: MIT
"""The problems of `cffem bench sweep`: eight terms each, written once in SymPy for cffem and once
in UFL for the loop by hand.

Both discretise alike (same mesh, elements, time levels and scheme), so that their scores can be
compared number by number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from cffem.symbols.coordinates import x, y, z
from cffem.symbols.fields import ScalarField, VectorField
from cffem.symbols.operators import curl, div, dt, grad, lap

u, E = ScalarField("u"), VectorField("E", dim=3)


@dataclass(frozen=True)
class Problem:
    """One class of problems.

    Attributes:
        title: what it is, in words.
        unknown: the field.
        order: the order in time; zero is steady.
        element: its element.
        dimension: the dimension of space.
        terms: the terms with their coefficients, in SymPy.
        weak: the same terms in UFL, as functions of (u, v, x) that are to be integrated over the
            domain.
        start: the initial value as a function of the points; a steady problem is forced by it.
        start_symbols: the same in SymPy.
        end: the end of the time window.
        nonlinear: whether a term is.
        sizes: cells per side and time steps, of a small and a large instance.
        coarse: cells per side and time steps from which decisions start.
        guaranteed: whether there are guaranteed error bounds for it.
    """

    title: str
    unknown: Any
    order: int
    element: tuple[str, int]
    dimension: int
    terms: Mapping[str, tuple[Any, float]]
    weak: Mapping[str, Callable[[Any, Any, Any], Any]]
    start: Callable[[np.ndarray], Any]
    start_symbols: Any
    end: float
    nonlinear: bool
    sizes: tuple[tuple[int, int], ...]
    coarse: tuple[int, int]
    guaranteed: bool = False

    @property
    def coefficients(self) -> dict[str, float]:
        """α_j."""
        return {name: value for name, (_, value) in self.terms.items()}

    def mesh(self, n: int, comm: Any) -> Any:
        """A box with n cells per side."""
        from dolfinx import mesh

        return (
            mesh.create_unit_square(comm, n, n)
            if self.dimension == 2
            else mesh.create_unit_cube(comm, n, n, n)
        )

    def model(self, n: int, steps: int, comm: Any, **options: Any) -> Any:
        """The problem for cffem."""
        from cffem.engine.model import Model
        from cffem.symbols.problem.conditions import Dirichlet, Tangential
        from cffem.symbols.problem.experiment import Experiment
        from cffem.symbols.problem.library import Library
        from cffem.symbols.problem.window import Window

        anchor = {0: None, 1: dt(self.unknown), 2: dt(dt(self.unknown))}[self.order]
        zero = (0, 0, 0) if self.unknown is E else 0
        initial = {} if self.order == 0 else {self.unknown: self.start_symbols}
        initial |= {dt(self.unknown): zero} if self.order == 2 else {}
        condition = (
            Tangential(self.unknown, zero) if self.unknown is E else Dirichlet(self.unknown, zero)
        )
        experiment = Experiment(
            mesh=self.mesh(n, comm),
            elements={self.unknown: self.element},
            initial=initial,
            forcing={self.unknown: self.start_symbols} if self.order == 0 else {},
            boundary=[condition],
            time=Window(0, self.end, steps=steps) if self.order else None,
        )
        library = Library(
            anchor=anchor,
            terms={name: term for name, (term, _) in self.terms.items()},
            unknown=self.unknown,
        )
        return Model(library, self.coefficients, experiment, **options)


def _plane_terms(diffusion: float) -> dict[str, tuple[Any, float]]:
    return {
        "u": (u, 0.6),
        "u_x": (u.diff(x), 0.4),
        "u_y": (u.diff(y), -0.3),
        "lap": (lap(u), diffusion),
        "xu": (x * u, 0.5),
        "yu_x": (y * u.diff(x), 0.3),
        "graded": (div((1 + x) * grad(u)), 0.5 * diffusion),
        "yyu": (y**2 * u, 0.05),
    }


def _plane_forms() -> dict[str, Callable[[Any, Any, Any], Any]]:
    import ufl

    return {
        "u": lambda u, v, x: u * v,
        "u_x": lambda u, v, x: u.dx(0) * v,
        "u_y": lambda u, v, x: u.dx(1) * v,
        "lap": lambda u, v, x: -ufl.inner(ufl.grad(u), ufl.grad(v)),
        "xu": lambda u, v, x: x[0] * u * v,
        "yu_x": lambda u, v, x: x[1] * u.dx(0) * v,
        "graded": lambda u, v, x: -(1 + x[0]) * ufl.inner(ufl.grad(u), ufl.grad(v)),
        "yyu": lambda u, v, x: x[1] ** 2 * u * v,
    }


def _plane_start(points: np.ndarray) -> np.ndarray:
    return np.sin(np.pi * points[0]) * np.sin(2 * np.pi * points[1])


PLANE_START = sp.sin(sp.pi * x) * sp.sin(2 * sp.pi * y)


def transient() -> Problem:
    """Advection, diffusion and reaction in the plane."""
    return Problem(
        "2D transient, P2",
        u,
        1,
        ("Lagrange", 2),
        2,
        _plane_terms(0.02),
        _plane_forms(),
        _plane_start,
        PLANE_START,
        0.5,
        False,
        ((96, 48), (192, 48)),
        (5, 5),
    )


def steady() -> Problem:
    """The steady version of it."""
    return Problem(
        "2D steady, P2",
        u,
        0,
        ("Lagrange", 2),
        2,
        _plane_terms(1.0),
        _plane_forms(),
        _plane_start,
        PLANE_START,
        0.0,
        False,
        ((96, 0), (192, 0)),
        (6, 0),
    )


def constant() -> Problem:
    """Transport, diffusion and reaction with coefficients for which there are guaranteed bounds."""
    import ufl

    terms = {
        "u": (u, 0.6),
        "u_x": (u.diff(x), 0.4),
        "u_y": (u.diff(y), -0.3),
        "lap": (lap(u), 0.04),
        "lap+u": (lap(u) + u, 0.02),
        "yu_x": (y * u.diff(x), 0.3),
        "xu_y": (x * u.diff(y), 0.05),
        "turn": (y * u.diff(x) - x * u.diff(y), 0.2),
    }
    plane = _plane_forms()
    weak = {
        **{name: plane[name] for name in ("u", "u_x", "u_y", "lap", "yu_x")},
        "lap+u": lambda u, v, x: u * v - ufl.inner(ufl.grad(u), ufl.grad(v)),
        "xu_y": lambda u, v, x: x[0] * u.dx(1) * v,
        "turn": lambda u, v, x: (x[1] * u.dx(0) - x[0] * u.dx(1)) * v,
    }
    return Problem(
        "2D transient with guarantees, P2",
        u,
        1,
        ("Lagrange", 2),
        2,
        terms,
        weak,
        _plane_start,
        PLANE_START,
        0.5,
        False,
        ((96, 48), (192, 48)),
        (6, 6),
        guaranteed=True,
    )


def nonlinear() -> Problem:
    """Reaction, diffusion and Burgers' term in the plane."""
    import ufl

    terms = {
        "u": (u, 0.6),
        "u_x": (u.diff(x), 0.3),
        "lap": (lap(u), 0.02),
        "cubic": (u**3, -0.8),
        "square": (u**2, 0.3),
        "burgers": (u * u.diff(x), -0.4),
        "xu": (x * u, 0.4),
        "graded": (div((1 + x) * grad(u)), 0.01),
    }
    weak = {
        "u": lambda u, v, x: u * v,
        "u_x": lambda u, v, x: u.dx(0) * v,
        "lap": lambda u, v, x: -ufl.inner(ufl.grad(u), ufl.grad(v)),
        "cubic": lambda u, v, x: u**3 * v,
        "square": lambda u, v, x: u**2 * v,
        "burgers": lambda u, v, x: u * u.dx(0) * v,
        "xu": lambda u, v, x: x[0] * u * v,
        "graded": lambda u, v, x: -(1 + x[0]) * ufl.inner(ufl.grad(u), ufl.grad(v)),
    }
    return Problem(
        "2D nonlinear, P2",
        u,
        1,
        ("Lagrange", 2),
        2,
        terms,
        weak,
        _plane_start,
        PLANE_START,
        0.5,
        True,
        ((40, 16), (64, 24)),
        (4, 3),
    )


def transient_3d() -> Problem:
    """Advection, diffusion and reaction in space."""
    terms = {
        "u": (u, 0.6),
        "u_x": (u.diff(x), 0.4),
        "u_y": (u.diff(y), -0.3),
        "u_z": (u.diff(z), 0.2),
        "lap": (lap(u), 0.02),
        "xu": (x * u, 0.5),
        "yu_x": (y * u.diff(x), 0.3),
        "graded": (div((1 + x) * grad(u)), 0.01),
    }
    # As in the plane, with one direction more.
    forms = {**_plane_forms(), "u_z": lambda u, v, x: u.dx(2) * v}
    weak = {name: forms[name] for name in terms}

    def start(points: np.ndarray) -> np.ndarray:
        return np.sin(np.pi * points[0]) * np.sin(2 * np.pi * points[1]) * np.sin(np.pi * points[2])

    symbols = sp.sin(sp.pi * x) * sp.sin(2 * sp.pi * y) * sp.sin(sp.pi * z)
    return Problem(
        "3D transient, P2",
        u,
        1,
        ("Lagrange", 2),
        3,
        terms,
        weak,
        start,
        symbols,
        0.5,
        False,
        ((11, 24), (22, 24)),
        (2, 3),
    )


def maxwell() -> Problem:
    """The Maxwell wave in a box with reactions that depend on the place, on edge elements."""
    import ufl

    terms = {
        "curlcurl": (curl(curl(E)), -1.0),
        "E": (E, -0.5),
        "xE": (x * E, -0.8),
        "yE": (y * E, 0.4),
        "zE": (z * E, -0.2),
        "zzE": (z**2 * E, 0.1),
        "xyE": (x * y * E, 0.25),
        "yyE": (y**2 * E, 0.03),
    }
    weak = {
        "curlcurl": lambda u, v, x: ufl.inner(ufl.curl(u), ufl.curl(v)),
        "E": lambda u, v, x: ufl.inner(u, v),
        "xE": lambda u, v, x: x[0] * ufl.inner(u, v),
        "yE": lambda u, v, x: x[1] * ufl.inner(u, v),
        "zE": lambda u, v, x: x[2] * ufl.inner(u, v),
        "zzE": lambda u, v, x: x[2] ** 2 * ufl.inner(u, v),
        "xyE": lambda u, v, x: x[0] * x[1] * ufl.inner(u, v),
        "yyE": lambda u, v, x: x[1] ** 2 * ufl.inner(u, v),
    }

    def start(points: np.ndarray) -> np.ndarray:
        one = np.sin(np.pi * points[1]) * np.sin(np.pi * points[2])
        return np.stack([one, np.sin(2 * np.pi * points[2]) * np.sin(np.pi * points[0]), 0 * one])

    symbols = (sp.sin(sp.pi * y) * sp.sin(sp.pi * z), sp.sin(2 * sp.pi * z) * sp.sin(sp.pi * x), 0)
    return Problem(
        "Maxwell, N1curl 1",
        E,
        2,
        ("N1curl", 1),
        3,
        terms,
        weak,
        start,
        symbols,
        1.0,
        False,
        ((10, 30), (19, 30)),
        (2, 5),
    )


PROBLEMS: dict[str, Callable[[], Problem]] = {
    "transient": transient,
    "constant": constant,
    "transient-3d": transient_3d,
    "maxwell": maxwell,
    "nonlinear": nonlinear,
    "steady": steady,
}
