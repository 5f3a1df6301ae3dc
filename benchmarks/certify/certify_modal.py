# SPDX-License-Identifier: MIT
"""Random problems with exact solutions for `cffem bench certify`: sums of eigenmodes of the square
and the cube.

Each amplitude obeys an ordinary equation that is solved by hand: y = f/k for steady problems, y' +
k y = f cos 3t for parabolic ones and y'' + s y' + k y = 0 for waves and Maxwell's equations, k = a
λ + c. Errors against these are computed from inner products with the modes, ‖u_h − Σ y φ‖² = ‖u_h‖²
− 2 Σ y (φ, u_h) + Σ y² ‖φ‖², at Gauss points in time.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import sympy as sp
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI

import cffem as cf
from cffem._compat import form
from cffem.symbols import x, y, z

u = cf.ScalarField("u")
PLANE, SPACE = cf.VectorField("E", dim=2), cf.VectorField("E", dim=3)
FREQUENCY = 3.0
GAUSS = 4


@dataclass(frozen=True)
class Mode:
    """An eigenfunction: its eigenvalue, its squared norm, its start, and itself with any sine
    and cosine.
    """

    eigenvalue: float
    square: float
    start: float
    shape: Callable[[Any, Any, Any], Any] = field(compare=False)


def scalar_modes(dim: int) -> tuple[Mode, ...]:
    """Products of sines."""
    indices: dict[tuple[int, ...], float]
    indices = (
        {(1, 1): 1.0, (2, 1): 0.8, (1, 3): -0.6} if dim == 2 else {(1, 1, 1): 1.0, (2, 1, 1): 0.5}
    )

    def shape(index: tuple[int, ...]) -> Callable[[Any, Any, Any], Any]:
        return lambda where, sin, cos: math.prod(
            [sin(i * s) for i, s in zip(index, where, strict=False)], start=1
        )

    return tuple(
        Mode(math.pi**2 * sum(i * i for i in index), 0.5**dim, start, shape(index))
        for index, start in indices.items()
    )


def cavity_modes(dim: int) -> tuple[Mode, ...]:
    """Divergence-free fields between perfectly conducting walls."""
    if dim == 3:
        return (
            Mode(
                2 * math.pi**2,
                0.25,
                1.0,
                lambda w, sin, cos: (sin(w[1]) * sin(w[2]), 0 * w[0], 0 * w[0]),
            ),
            Mode(
                5 * math.pi**2,
                0.25,
                0.5,
                lambda w, sin, cos: (0 * w[0], sin(2 * w[0]) * sin(w[2]), 0 * w[0]),
            ),
        )

    def plane(n: int, m: int) -> Callable[[Any, Any, Any], Any]:
        return lambda w, sin, cos: (
            -m * cos(n * w[0]) * sin(m * w[1]),
            n * sin(n * w[0]) * cos(m * w[1]),
        )

    return tuple(
        Mode(math.pi**2 * (n * n + m * m), (n * n + m * m) / 4, start, plane(n, m))
        for (n, m), start in {(1, 1): 1.0, (2, 1): 0.4}.items()
    )


@dataclass(frozen=True)
class ModalFamily:
    """A class of problems with modal solutions.

    Attributes:
        name: its name in the tables.
        dim: the dimension of space.
        kind: "steady", "parabolic" or "wave".
        unknown: the field.
        terms: the library, without the anchor.
        deletable: the terms that may be deleted.
        numbers: (a, c, s) of −a Δ + c and the damping, from coefficients.
        modes: the eigenfunctions that occur.
        element: the family of the element.
    """

    name: str
    dim: int
    kind: str
    unknown: Any
    terms: Mapping[str, Any]
    deletable: tuple[str, ...]
    numbers: Callable[[Mapping[str, float]], tuple[float, float, float]]
    modes: tuple[Mode, ...]
    element: str = "Lagrange"

    def model(
        self,
        domain: Any,
        coefficients: Mapping[str, float],
        degree: int,
        window: Any,
        options: Any = None,
        constrained: bool = False,
    ) -> Any:
        """A model whose exact solution is modal; its field, where it is a vector, may be
        declared to be divergence-free.
        """
        places, field = (x, y, z)[: self.dim], self.unknown
        vector = self.element != "Lagrange"

        def symbolic(weights: Any) -> Any:
            shapes = [m.shape([sp.pi * s for s in places], sp.sin, sp.cos) for m in self.modes]
            if not vector:
                return sp.Add(*(w * s for w, s in zip(weights, shapes, strict=True)))
            return tuple(
                sp.Add(*(w * s[i] for w, s in zip(weights, shapes, strict=True)))
                for i in range(self.dim)
            )

        start = symbolic([m.start for m in self.modes])
        given: dict[str, Any] = {}
        if self.kind == "steady":
            given["forcing"] = {field: start}
        elif self.kind == "parabolic":
            given |= {
                "initial": {field: start},
                "forcing": {field: sp.cos(FREQUENCY * cf.t) * start},
            }
        else:
            given["initial"] = {field: start, cf.dt(field): (0,) * self.dim if vector else 0}
        if constrained:
            given["constraint"] = cf.DivergenceFree(field)
        wall = cf.Tangential(field, 0) if vector else cf.Dirichlet(field, 0)
        experiment = cf.Experiment(
            mesh=domain,
            elements={field: (self.element, degree)},
            boundary=[wall],
            time=window,
            **given,
        )
        return cf.Model(self.library, coefficients, experiment, options)

    @property
    def library(self) -> Any:
        """The candidate terms with their anchor."""
        if self.kind == "steady":
            return cf.Library(terms=dict(self.terms), unknown=self.unknown)
        anchor = cf.dt(self.unknown) if self.kind == "parabolic" else cf.dt(cf.dt(self.unknown))
        return cf.Library(anchor=anchor, terms=dict(self.terms))

    def amplitudes(self, coefficients: Mapping[str, float], time: float) -> np.ndarray:
        """The exact amplitudes of all modes at a time."""
        a, c, s = self.numbers(coefficients)
        return np.array(
            [_amplitude(self.kind, a * m.eigenvalue + c, s, m.start, time) for m in self.modes]
        )


def _amplitude(kind: str, k: float, s: float, start: float, time: float) -> float:
    if kind == "steady":
        return start / k
    if kind == "parabolic":
        forced = start / (k * k + FREQUENCY**2)
        wave = forced * (k * math.cos(FREQUENCY * time) + FREQUENCY * math.sin(FREQUENCY * time))
        return wave + (start - forced * k) * math.exp(-k * time)
    root = cmath.sqrt(s * s / 4 - k)
    if abs(root) < 1e-12:
        return start * math.exp(-s * time / 2) * (1 + s * time / 2)
    first, second = -s / 2 + root, -s / 2 - root
    value = (
        start
        * (second * cmath.exp(first * time) - first * cmath.exp(second * time))
        / (second - first)
    )
    return value.real


def _diffusive(c: Mapping[str, float]) -> tuple[float, float, float]:
    return c["lap"] + c["mixing"], 5 * c["mixing"] - c["u"], 0.0


def _oscillating(c: Mapping[str, float]) -> tuple[float, float, float]:
    return c["stiffness"], c["mass"], c["damping"]


@cache
def families() -> dict[str, ModalFamily]:
    """All families by name."""
    heat = {"lap": cf.lap(u), "mixing": cf.lap(u) - 5 * u, "u": u}
    wave = {"stiffness": cf.lap(u), "mass": -u, "damping": -cf.dt(u)}
    found = []
    for dim in (2, 3):
        for kind in ("steady", "parabolic"):
            name = f"{kind} {dim}D"
            found.append(
                ModalFamily(
                    name, dim, kind, u, heat, ("mixing", "u"), _diffusive, scalar_modes(dim)
                )
            )
        found.append(
            ModalFamily(
                f"wave {dim}D",
                dim,
                "wave",
                u,
                wave,
                ("mass", "damping"),
                _oscillating,
                scalar_modes(dim),
            )
        )
        field = PLANE if dim == 2 else SPACE
        cavity = {"stiffness": -cf.curl(cf.curl(field)), "mass": -field, "damping": -cf.dt(field)}
        modes = cavity_modes(dim)
        found.append(
            ModalFamily(
                f"Maxwell {dim}D",
                dim,
                "wave",
                field,
                cavity,
                ("mass", "damping"),
                _oscillating,
                modes,
                "N1curl",
            )
        )
    return {family.name: family for family in found}


def perturbed(dim: int, n: int, strength: float, phase: float) -> Any:
    """The unit square or cube with inner nodes moved by a function of their coordinates."""
    domain = (
        mesh.create_unit_square(MPI.COMM_SELF, n, n)
        if dim == 2
        else mesh.create_unit_cube(MPI.COMM_SELF, n, n, n)
    )
    points = domain.geometry.x
    inside = np.prod(np.sin(np.pi * points[:, :dim]), axis=1)
    bump = np.abs(inside) ** 0.25 * (np.abs(inside) > 1e-12)
    for axis in range(dim):
        wave = np.cos(
            37.0 * points[:, 0] + 53.0 * points[:, 1] + 29.0 * points[:, 2] + phase + axis
        )
        points[:, axis] += strength / n * bump * wave
    return domain


class Truth:
    """Errors of a model's solutions against the exact ones.

    Args:
        family: the family.
        model: the model.
    """

    def __init__(self, family: ModalFamily, model: Any):
        self.family, self.model = family, model
        domain, space = model.discretisation.mesh, model.spaces.own(family.unknown)[0]
        where = [math.pi * s for s in ufl.SpatialCoordinate(domain)]
        test, degree = ufl.TestFunction(space), 12 if family.dim == 2 else 8
        dx = ufl.dx(domain=domain, metadata={"quadrature_degree": degree})
        self.moments = []
        for m in family.modes:
            shape = m.shape(where, ufl.sin, ufl.cos)
            value = (
                ufl.as_vector([ufl.as_ufl(part) for part in shape])
                if isinstance(shape, tuple)
                else shape
            )
            self.moments.append(
                fem.assemble_vector(form(ufl.inner(value, test) * dx, domain.comm)).array.copy()
            )
        self.squares = np.array([m.square for m in family.modes])

    def _nodes(self) -> list[tuple[float, float, int, float]]:
        """Weight, time, level and fraction of the Gauss points."""
        if self.family.kind == "steady":
            return [(1.0, 0.0, 0, 0.0)]
        points, weights = np.polynomial.legendre.leggauss(GAUSS)
        times = self.model.times
        return [
            (
                w / 2 * (times[n + 1] - times[n]),
                times[n] + (p + 1) / 2 * (times[n + 1] - times[n]),
                n,
                (p + 1) / 2,
            )
            for n in range(len(times) - 1)
            for p, w in zip(points, weights, strict=True)
        ]

    def error(
        self, states: Any, problems: list[tuple[float, Mapping[str, float]]], energy: bool = False
    ) -> float:
        """The norm of states minus Σ weight · exact solution; the energy norm only of one
        problem.
        """
        norm = self.model.norm("energy" if energy else "L2")
        stiffness = np.ones(len(self.squares))
        if energy:
            a, c, _ = self.family.numbers(problems[0][1])
            stiffness = np.array([a * m.eigenvalue + c for m in self.family.modes])
        total = 0.0
        for weight, now, level, share in self._nodes():
            amplitude = sum(w * self.family.amplitudes(c, now) for w, c in problems)
            square = float(amplitude**2 @ (self.squares * stiffness))
            if states is not None:
                state = (
                    states[level]
                    if share == 0
                    else (1 - share) * states[level] + share * states[level + 1]
                )
                moments = np.array([moment @ state for moment in self.moments])
                square += norm.inner(state, state) - 2 * float(amplitude * stiffness @ moments)
            total += weight * square
        return math.sqrt(max(total, 0.0))
