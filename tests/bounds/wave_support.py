"""Random waves and cavities with exact modal solutions, for the tests of error bounds of
second order in time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
import ufl
from bounds_support import MODES, Outcome, eigenvalue, modal_forcing, perturbed, u
from dolfinx import fem

import cffem as cf
from cffem import curl, div, dt, grad, lap, x, y, z
from cffem._compat import form
from cffem.bounds.waves.maxwell import MaxwellCertifier
from cffem.bounds.waves.scalar_waves import WaveCertifier
from cffem.bounds.waves.wave_enriched import EnrichedSecondOrderCertifier

FREQUENCY = 3.0
WAVE = cf.Library(anchor=dt(dt(u)), terms={"lap": lap(u), "u": u, "damping": -dt(u)})
PLANE, SPACE = cf.VectorField("E", dim=2), cf.VectorField("E", dim=3)
FIELDS = {1: {2: u, 3: u}, 2: {2: PLANE, 3: SPACE}}


def maxwell_library(dim: int, constrained: bool) -> Any:
    field = FIELDS[2][dim]
    terms = {"curl": -curl(curl(field)), "mass": -field, "damping": -dt(field)}
    return cf.Library(
        anchor=dt(dt(field)),
        terms={**terms, "grad div": grad(div(field))} if constrained else terms,
    )


# Modes of the unit square and cube between conducting walls: indices, whether it is a gradient,
# amplitude.
CAVITY = {
    2: (((1, 1), False, 1.0), ((2, 1), False, 0.6), ((1, 1), True, 0.5)),
    3: (((0, 1, 1), False, 1.0), ((1, 1, 1), True, 0.3)),
}


def cavity_mode(
    index: tuple[int, ...], gradient: bool, where: Any, sin: Any, cos: Any, pi: Any
) -> tuple[Any, ...]:
    """∇ of a product of sines, or a divergence-free field with the same walls."""
    dim = len(index)
    waves = [
        [(cos if i == j else sin)(index[j] * pi * where[j]) for j in range(dim)] for i in range(dim)
    ]
    products = [np.prod(row) for row in waves]
    if gradient:
        return tuple(index[i] * products[i] for i in range(dim))
    if dim == 2:
        return index[1] * products[0], -index[0] * products[1]
    return products[0], 0 * where[0], 0 * where[0]


def amplitude(stiffness: float, damping: float, time: float, start: float, force: float) -> float:
    """a'' + σ a' + k a = force · cos(3t), a(0) = start, a'(0) = 0."""
    below = (stiffness - FREQUENCY**2) ** 2 + damping**2 * FREQUENCY**2
    even, odd = force * (stiffness - FREQUENCY**2) / below, force * damping * FREQUENCY / below
    first, rate = start - even, -odd * FREQUENCY
    omega = np.sqrt(complex(stiffness - damping**2 / 4))
    free = first * np.cos(omega * time) + (rate + damping / 2 * first) * time * np.sinc(
        omega * time / np.pi
    )
    driven = even * np.cos(FREQUENCY * time) + odd * np.sin(FREQUENCY * time)
    return float((np.exp(-damping * time / 2) * free).real + driven)


class Cavity:
    """One random problem with its exact solution.

    Args:
        vector: whether it is Maxwell's equations.
        domain: the mesh.
        coefficients: of the stiffness, mass and damping, by those names.
        degree, end, steps: the discretisation.
        uneven: how much the steps grow over the window: level n of N is (n/N)^(1 + uneven).
        constrained: whether div E = 0.
        force: the amplitude of the forcing relative to that of the start.
        options: PETSc options.
    """

    def __init__(
        self,
        vector: bool,
        domain: Any,
        coefficients: dict[str, float],
        degree: int,
        end: float,
        steps: int,
        constrained: bool = False,
        force: float = 0.5,
        scheme: str | None = None,
        uneven: float = 0.0,
    ):
        self.vector, self.dim, self.force, self.coefficients = (
            vector,
            domain.topology.dim,
            force,
            coefficients,
        )
        self.field = FIELDS[1 + vector][self.dim]
        where = (x, y, z)[: self.dim]
        if vector:
            self.modes = [m for m in CAVITY[self.dim] if not (constrained and m[1])]
            parts = [
                [m[2] * c for c in cavity_mode(m[0], m[1], where, sp.sin, sp.cos, sp.pi)]
                for m in self.modes
            ]
            start: Any = tuple(sum(p) for p in zip(*parts, strict=True))
            given, library = (
                tuple(force * sp.cos(FREQUENCY * cf.t) * s for s in start),
                maxwell_library(self.dim, constrained),
            )
            names = {"stiffness": "curl", "mass": "mass", "damping": "damping"}
            values = {names[k]: v for k, v in coefficients.items()} | (
                {"grad div": 0.7} if constrained else {}
            )
        else:
            self.modes = [(index, False, a) for index, a in MODES[self.dim].items()]
            start = modal_forcing(self.dim)
            given, library = force * sp.cos(FREQUENCY * cf.t) * start, WAVE
            names = {"stiffness": "lap", "mass": "u", "damping": "damping"}
            values = {
                "lap": coefficients["stiffness"],
                "u": -coefficients["mass"],
                "damping": coefficients["damping"],
            }
        self.names = names
        experiment = cf.Experiment(
            mesh=domain,
            elements={self.field: ("N1curl" if vector else "Lagrange", degree)},
            initial={self.field: start, dt(self.field): (0,) * self.dim if vector else 0},
            boundary=[cf.Tangential(self.field, 0) if vector else cf.Dirichlet(self.field, 0)],
            forcing={self.field: given} if force else {},
            time=cf.Window.through(end * np.linspace(0, 1, steps + 1) ** (1 + uneven), scheme)
            if uneven
            else cf.Window(0, end, steps=steps, scheme=scheme),
            constraint=cf.DivergenceFree(self.field) if constrained else None,
        )
        self.model = cf.Model(library, values, experiment)
        self._measure()

    def _measure(self) -> None:
        domain = self.model.discretisation.mesh
        self.function = fem.Function(self.model.spaces.own(self.field)[0])
        self.amplitudes = fem.Constant(domain, np.zeros(len(self.modes)))
        where, exact = ufl.SpatialCoordinate(domain), 0
        for k, (index, gradient, _) in enumerate(self.modes):
            if self.vector:
                mode: Any = ufl.as_vector(
                    cavity_mode(index, gradient, where, ufl.sin, ufl.cos, np.pi)
                )
            else:
                mode = np.prod([ufl.sin(i * np.pi * s) for i, s in zip(index, where, strict=False)])
            exact += self.amplitudes[k] * mode
        error = self.function - exact
        self.form = form(
            ufl.inner(error, error) * ufl.dx(metadata={"quadrature_degree": 8}), domain.comm
        )

    def exact(self, time: float, without: str = "") -> np.ndarray:
        """Amplitudes of the exact solution, of the factual problem or without a term."""
        c = {**self.coefficients, **({without: 0.0} if without else {})}
        values = [
            amplitude(
                c["stiffness"] * (0.0 if gradient else eigenvalue(index)) + c["mass"],
                c["damping"],
                time,
                a,
                self.force * a,
            )
            for index, gradient, a in self.modes
        ]
        return np.array(values)

    def error(self, states: Any, amplitudes: Any) -> float:
        """‖I u_h − u‖ by Gauss quadrature on each step."""
        points, weights = np.polynomial.legendre.leggauss(3)
        total, times, model = 0.0, self.model.times, self.model
        for n, step in enumerate(np.diff(times)):
            for place, weight in zip((points + 1) / 2, weights / 2, strict=True):
                state = (1 - place) * states[n] + place * states[n + 1]
                self.function.x.array[:] = model.spaces.with_ghosts(state)[
                    model.spaces.dofs(self.field)
                ]
                self.amplitudes.value[:] = amplitudes(times[n] + place * step)
                total += step * weight * model.comm.allreduce(fem.assemble_scalar(self.form))
        return float(np.sqrt(total))

    def certifier(self, enriched: bool = False) -> Any:
        if enriched:
            return EnrichedSecondOrderCertifier(self.model)
        return (MaxwellCertifier if self.vector else WaveCertifier)(self.model)

    def outcome(self, without: str, enriched: bool = False) -> Outcome:
        """One deletion against the exact solutions."""
        term = self.names[without]
        first, deleted = self.model.factual.states, self.model.solve(cf.delete(term))
        certifier = self.certifier(enriched)
        bound = certifier.deletion(term, deleted=deleted)
        certifier.destroy()
        gap = [a - b for a, b in zip(first, deleted.states, strict=True)]

        def difference(time: float) -> np.ndarray:
            return self.exact(time) - self.exact(time, without)

        return Outcome(
            self.model.spaces.elements[self.field].degree,
            term,
            self.coefficients,
            (self.error(first, self.exact), bound.eta_factual),
            (
                self.error(deleted.states, lambda time: self.exact(time, without)),
                bound.eta_counterfactual,
            ),
            (self.error(gap, difference), bound.difference),
            self.error([0 * state for state in gap], difference),
            bound.score,
            bound.margin,
        )

    def destroy(self) -> None:
        self.model.destroy()


def random_cavity(
    random: Any, case: int, vector: bool, dim: int = 2, largest: int = 10, uneven: float = 0.0
) -> Cavity:
    """Stiff or soft, damped or growing, about half a period to one and a half of the first mode."""
    stiffness = float(10 ** random.uniform(-1, 0.5))
    mass = (
        float(random.uniform(-0.3, 1.5) if case % 4 else random.uniform(-1.6, -1.1))
        * stiffness
        * (5.0 if vector else 20.0)
    )
    if vector and case % 3 == 0:
        mass = 0.0
    damping = float(random.choice([0.02, 0.2, -0.1, 0.0])) * np.sqrt(stiffness) * 4
    n = int(random.integers(4, largest + 1)) if dim == 2 else 2
    end = float(random.uniform(0.5, 1.5)) * np.pi / np.sqrt(20 * stiffness)
    domain = perturbed(dim, n, random.uniform(0, 0.2), random.uniform(0, 6))
    coefficients = {"stiffness": stiffness, "mass": mass, "damping": float(damping)}
    steps, degree = int(random.integers(8, 24)), 1 + (case // 2) % 2 if dim == 2 else 1
    return Cavity(
        vector,
        domain,
        coefficients,
        degree,
        end,
        steps,
        vector and case % 2 == 0,
        float(case % 2) / 2,
        uneven=uneven,
    )


def deletable(cavity: Cavity) -> list[str]:
    return [name for name, value in cavity.coefficients.items() if value]


def outcomes(
    count: int,
    seed: int,
    vector: bool,
    enriched: bool = False,
    dim: int = 2,
    largest: int = 10,
    uneven: float = 0.0,
) -> list[Outcome]:
    """Deletions of random problems."""
    random, found = np.random.default_rng(seed), []
    for case in range(count):
        cavity = random_cavity(random, case, vector, dim, largest, uneven)
        names = deletable(cavity)
        found.append(cavity.outcome(names[case % len(names)], enriched))
        cavity.destroy()
    return found


def check(found: list[Outcome]) -> list[tuple[str, str, str]]:
    """Every bound covers and no decision is wrong."""
    assert [o for o in found if not o.covered] == []
    decisions = [d for o in found for d in o.decisions()]
    assert all(
        margin in (truth, "unresolved") and both in (truth, "unresolved")
        for truth, margin, both in decisions
    )
    return decisions


__all__ = [name for name in dir() if not name.startswith("_")]
