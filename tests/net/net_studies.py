"""Random studies that can be written in many ways that mean the same.

A study is drawn once; `Way` says how it is written: in which order of terms, units and names, on
which communicator, with a term split into two halves or a term with coefficient zero added.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp
from dolfinx import mesh
from mpi4py import MPI
from net_meshes import tagged

import cffem as cf
from cffem import t, x, y
from cffem.engine.mesh.meshes import MeshData


@dataclass(frozen=True)
class Word:
    """A term with its dimensions: it scales as U^power · L^(weight − derivatives).

    Attributes:
        term: from the field.
        derivatives: their number.
        power: the degree in the field.
        weight: the degree in the coordinates outside derivatives.
    """

    term: Callable[[Any], Any]
    derivatives: int
    power: int
    weight: int


WORDS = {
    "u": Word(lambda u: u, 0, 1, 0),
    "u_x": Word(lambda u: u.diff(x), 1, 1, 0),
    "xu": Word(lambda u: x * u, 0, 1, 1),
    "xu_x": Word(lambda u: x * u.diff(x), 1, 1, 1),
    "lap": Word(lambda u: cf.lap(u), 2, 1, 0),
    "source": Word(lambda u: 1 + 0 * x, 0, 0, 0),
    "cubic": Word(lambda u: u**3, 0, 3, 0),
    "burgers": Word(lambda u: u * u.diff(x), 1, 2, 0),
    "porous": Word(lambda u: cf.div(u**2 * cf.grad(u)), 2, 3, 0),
}
ADDED = {
    "sine": lambda u: sp.sin(u),
    "spurious": lambda u: u**2 * u.diff(x),
    "drift in time": lambda u: (1 + t) * u.diff(x),
}


@dataclass(frozen=True)
class Way:
    """One way to write a study.

    Attributes:
        order: the names of the terms in the order in which they are written; None is the drawn one.
        name: of the field.
        length, time, size: units in which one metre, one second and the field's unit are these
            numbers.
        added: a term with coefficient zero.
        split: a term that is written as two halves.
        comm: the communicator; None is this rank alone.
    """

    order: tuple[str, ...] | None = None
    name: str = "u"
    length: float = 1.0
    time: float = 1.0
    size: float = 1.0
    added: str | None = None
    split: str | None = None
    comm: Any = None


@dataclass(frozen=True)
class DrawnStudy:
    """What a seed stands for, in unit scales.

    Attributes:
        dimension: of space.
        order: of the time derivative; zero is steady.
        coefficients: by the names of `WORDS`.
        free: the side with a Robin condition, or None.
        cells, steps, end, scheme: of mesh and window.
        waves: amplitudes of the initial and boundary values.
        relative: the relative threshold of verdicts.
    """

    dimension: int
    order: int
    coefficients: dict[str, float]
    free: str | None
    cells: int
    steps: int
    end: float
    scheme: str | None
    waves: tuple[float, ...]
    relative: float

    def experiment(self, way: Way) -> cf.Experiment:
        """The experiment in the units of a way."""
        L, u = way.length, cf.ScalarField(way.name)
        X, Y = x / L, y / L
        across = sp.sin(sp.pi * Y) if self.dimension == 2 else 1
        start = (
            sum(a * sp.sin((k + 1) * sp.pi * X) for k, a in enumerate(self.waves))
            * across
            * way.size
        )
        value = way.size * (self.waves[0] + self.waves[1] * X) if self.order == 0 else 0
        names = ("left", "right", "bottom", "top")[: 2 * self.dimension]
        boundary: list[Any] = [cf.Dirichlet(u, value, on=tuple(n for n in names if n != self.free))]
        if self.free:
            boundary.append(cf.Robin(u, way.size / L, on=self.free, coefficient=1.5 / L))
        return cf.Experiment(
            mesh=self.mesh(way),
            elements={u: ("Lagrange", 2)},
            initial=({u: start} if self.order else {}) | ({cf.dt(u): 0} if self.order == 2 else {}),
            boundary=boundary,
            time=cf.Window(0, self.end * way.time, steps=self.steps, scheme=self.scheme)
            if self.order
            else None,
        )

    def mesh(self, way: Way) -> MeshData:
        """The mesh with its sides named."""
        n, comm = self.cells, way.comm or MPI.COMM_SELF
        made = (
            mesh.create_unit_interval(comm, n)
            if self.dimension == 1
            else mesh.create_unit_square(comm, n, n)
        )
        data = MeshData(made, None, *tagged(made))
        made.geometry.x[:] *= way.length
        return data

    def written(self, way: Way) -> tuple[cf.Library, dict[str, float]]:
        """Library and coefficients in the units of a way."""
        u = cf.ScalarField(way.name)
        terms, coefficients = {}, {}
        for name in way.order or tuple(self.coefficients):
            word = WORDS[name]
            # A steady equation may be multiplied by any number; it has that of a rate.
            unit = way.size / way.time ** max(self.order, 1)
            scale = unit / (way.size**word.power * way.length ** (word.weight - word.derivatives))
            halves = {name: word.term(u)}
            if name == way.split:
                share = (x / way.length) ** 2
                halves = {
                    f"{name}, right": share * word.term(u),
                    f"{name}, left": (1 - share) * word.term(u),
                }
            terms |= halves
            coefficients |= dict.fromkeys(halves, self.coefficients[name] * scale)
        if way.added:
            terms = {way.added: ADDED[way.added](u), **terms}
            coefficients[way.added] = 0.0
        anchor = {0: None, 1: cf.dt(u), 2: cf.dt(cf.dt(u))}[self.order]
        return cf.Library(anchor=anchor, terms=terms, unknown=u), coefficients

    def model(self, way: Way) -> cf.Model:
        """The model of a way."""
        return cf.Model(*self.written(way), self.experiment(way))

    def unit_of_scores(self, way: Way) -> float:
        """What scores are multiplied by in the units of a way."""
        return (
            way.size * way.length ** (self.dimension / 2) * (way.time**0.5 if self.order else 1.0)
        )


def drawn_study(seed: int) -> DrawnStudy:
    """The study of a seed."""
    rng = np.random.default_rng(seed)
    order = int(rng.choice([0, 1, 1, 2]))
    chosen = [name for name in ("u", "u_x", "xu", "xu_x") if rng.uniform() < 0.7] or ["u"]
    coefficients = {name: float(rng.normal()) for name in chosen}
    if rng.uniform() < 0.5:
        coefficients |= {"cubic": -float(rng.uniform(0.2, 1.5)), "burgers": float(rng.normal() / 2)}
    if rng.uniform() < 0.25:
        coefficients["porous"] = float(rng.uniform(0.1, 0.5))
    if rng.uniform() < 0.4:
        coefficients["source"] = float(rng.normal())
    coefficients["lap"] = float(
        10 ** (rng.uniform(-0.3, 0.3) if order == 0 else rng.uniform(-1.5, -0.5))
    )
    dimension = int(rng.integers(1, 3))
    return DrawnStudy(
        dimension=dimension,
        order=order,
        coefficients=coefficients,
        free=(None, "right")[rng.integers(2)],
        cells=int(rng.integers(5, 9)),
        steps=int(rng.integers(4, 8)),
        end=float(rng.uniform(0.2, 0.6)),
        scheme=str(rng.choice(["midpoint", "sdirk2"])) if order == 1 else None,
        waves=tuple(float(value) for value in rng.normal(size=3)),
        relative=float(10 ** rng.uniform(-2.5, -0.5)),
    )
