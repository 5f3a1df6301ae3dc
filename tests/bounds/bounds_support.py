"""Random steady problems with exact or much better solutions, for the tests of error bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI

import cffem as cf
from cffem._compat import form
from cffem.bounds import certify_deletion
from cffem.bounds.entrance import certifier
from cffem.symbols import x, y, z
from cffem.verdicts import decide

u = cf.ScalarField("u")
LIBRARY = cf.Library(
    terms={
        "lap": cf.lap(u),
        "mixing": cf.lap(u) - 5 * u,
        "u": u,
        "u_x": u.diff(x),
        "drift": x * u.diff(x) + y * u.diff(y),
    },
    unknown=u,
)
DIFFUSIVE = cf.Library(terms={"lap": cf.lap(u), "mixing": cf.lap(u) - 5 * u, "u": u}, unknown=u)
# Indices and amplitudes of the sine modes in the forcing.
MODES = {2: {(1, 1): 1.0, (2, 1): 0.8, (1, 3): -0.6}, 3: {(1, 1, 1): 1.0, (2, 1, 1): 0.5}}
SOURCE = x * (1 - x) * y * (1 - y) * (1 + 3 * x + 8 * sp.sin(3 * y))
REFERENCE = 4


def shape(index: tuple[int, ...], where: Any, sine: Any, pi: Any) -> Any:
    value = 1
    for i, s in zip(index, where, strict=False):
        value *= sine(i * pi * s)
    return value


def perturbed(dim: int, n: int, strength: float, phase: float, comm: Any = MPI.COMM_SELF) -> Any:
    """The unit square or cube with inner nodes moved by a function of their coordinates, the
    same on any number of ranks.
    """
    domain = (
        mesh.create_unit_square(comm, n, n) if dim == 2 else mesh.create_unit_cube(comm, n, n, n)
    )
    points = domain.geometry.x
    inside = np.prod(np.sin(np.pi * points[:, :dim]), axis=1)
    bump = np.abs(inside) ** 0.25 * (np.abs(inside) > 1e-12)
    for axis in range(dim):
        points[:, axis] += (
            strength
            / n
            * bump
            * np.cos(37.0 * points[:, 0] + 53.0 * points[:, 1] + 29.0 * points[:, 2] + phase + axis)
        )
    return domain


def l_shape() -> Any:
    """A coarse mesh of a domain that is not convex."""
    points = [[0, 0], [1, 0], [1, 1], [0, 1], [-1, 1], [-1, 0], [-1, -1], [0, -1]]
    cells = [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5], [0, 5, 6], [0, 6, 7]]
    element = basix.ufl.element("Lagrange", "triangle", 1, shape=(2,))
    domain = mesh.create_mesh(
        MPI.COMM_SELF,
        np.array(cells, dtype=np.int64),
        x=np.array(points, dtype=float),
        e=ufl.Mesh(element),
    )
    for _ in range(2):
        domain.topology.create_entities(1)
        domain = mesh.refine(domain)[0]
    return domain


def model(
    domain: Any, library: Any, coefficients: Any, degree: int, forcing: Any, options: Any = None
) -> Any:
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: forcing},
    )
    return cf.Model(library, coefficients, experiment, options)


def modal_forcing(dim: int) -> Any:
    return sum(a * shape(index, (x, y, z), sp.sin, sp.pi) for index, a in MODES[dim].items())


class Modal:
    """Measures errors against −a Δu + c u = Σ f_i φ_i, whose solution is Σ f_i / (a λ_i + c)
    φ_i.
    """

    def __init__(self, space: Any):
        domain = space.mesh
        self.dim = domain.topology.dim
        self.function = fem.Function(space)
        self.amplitudes = fem.Constant(domain, np.zeros(len(MODES[self.dim])))
        where = ufl.SpatialCoordinate(domain)
        exact = sum(
            self.amplitudes[k] * shape(index, where, ufl.sin, np.pi)
            for k, index in enumerate(MODES[self.dim])
        )
        error, dx = (
            self.function - exact,
            ufl.dx(metadata={"quadrature_degree": 10 if self.dim == 2 else 8}),
        )
        self.forms = [
            form(e * dx, domain.comm)
            for e in (error**2, ufl.inner(ufl.grad(error), ufl.grad(error)))
        ]

    def __call__(self, function: Any, *problems: tuple[float, float, float]) -> tuple[float, float]:
        """‖e‖ and ‖∇e‖ of function − Σ sign · solution(a, c) over the problems (sign, a, c)."""
        values = np.zeros(len(MODES[self.dim]))
        for sign, a, c in problems:
            values += sign * np.array(
                [f / (a * eigenvalue(i) + c) for i, f in MODES[self.dim].items()]
            )
        return self.distance(function.x.array, values)

    def distance(self, array: np.ndarray, amplitudes: np.ndarray) -> tuple[float, float]:
        """‖e‖ and ‖∇e‖ of a function given by its local array minus Σ amplitude · mode."""
        self.function.x.array[:], self.amplitudes.value[:] = array, amplitudes
        comm = self.function.function_space.mesh.comm
        return tuple(float(np.sqrt(comm.allreduce(fem.assemble_scalar(f)))) for f in self.forms)


def eigenvalue(index: tuple[int, ...]) -> float:
    return float(np.pi**2 * sum(i * i for i in index))


@dataclass
class Outcome:
    """True errors and bounds of one deletion in L2."""

    degree: int
    term: str
    coefficients: dict[str, float]
    factual: tuple[float, float]
    counterfactual: tuple[float, float]
    difference: tuple[float, float]
    true_score: float
    score: float
    margin: float

    @property
    def covered(self) -> bool:
        errors = (
            self.factual,
            self.counterfactual,
            self.difference,
            (abs(self.score - self.true_score), self.margin),
        )
        return all(bound >= error for error, bound in errors)

    def decisions(self) -> list[tuple[str, str, str]]:
        """Truth, decision by the difference margin, decision by the sum, at 13 thresholds
        around the true score.
        """
        result = []
        for epsilon in self.true_score * np.logspace(-1.5, 1.5, 13):
            truth = "relevant" if self.true_score > epsilon else "irrelevant"
            both = decide(self.score, epsilon, self.factual[1], self.counterfactual[1])
            result.append((truth, decide(self.score, epsilon, margin=self.margin), both))
        return result


def modal_outcome(problem: Any, term: str, measured: Modal, enriched: bool = False) -> Outcome:
    """One deletion of a reaction–diffusion problem with a known solution."""
    bound = certify_deletion(problem, term, enriched=enriched)
    assert bound, bound.reason
    a, c = diffusion_and_reaction(problem.coefficients)
    a2, c2 = diffusion_and_reaction({**problem.coefficients, term: 0.0})
    factual, deleted = problem.factual.function(), problem.solve(cf.delete(term)).function()
    gap = problem.factual.function()
    gap.x.array[:] -= deleted.x.array
    zero = fem.Function(gap.function_space)
    return Outcome(
        problem.spaces.elements[u].degree,
        term,
        dict(problem.coefficients),
        (measured(factual, (1, a, c))[0], bound.eta_factual),
        (measured(deleted, (1, a2, c2))[0], bound.eta_counterfactual),
        (measured(gap, (1, a, c), (-1, a2, c2))[0], bound.difference),
        measured(zero, (1, a, c), (-1, a2, c2))[0],
        bound.score,
        bound.margin,
    )


def diffusion_and_reaction(coefficients: Any) -> tuple[float, float]:
    return coefficients["lap"] + coefficients["mixing"], 5 * coefficients["mixing"] - coefficients[
        "u"
    ]


FREQUENCY = 3.0
HEAT = cf.Library(anchor=cf.dt(u), terms=dict(DIFFUSIVE.terms))


def heat_model(
    domain: Any, coefficients: Any, degree: int, end: float, steps: int, scheme: str
) -> Any:
    """u_t + L u = cos(3t) Σ f_i φ_i, u(0) = Σ f_i φ_i."""
    modes = modal_forcing(domain.topology.dim)
    experiment = cf.Experiment(
        mesh=domain,
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: modes},
        forcing={u: sp.cos(FREQUENCY * cf.t) * modes},
        time=cf.Window(0, end, steps=steps, scheme=scheme),
    )
    return cf.Model(HEAT, coefficients, experiment)


def heat_amplitudes(dim: int, a: float, c: float, time: float) -> np.ndarray:
    """Amplitudes of the exact solution: a decaying and a forced part for each mode."""
    result = []
    for index, f in MODES[dim].items():
        k = a * eigenvalue(index) + c
        forced = f / (k * k + FREQUENCY**2)
        wave = forced * (k * np.cos(FREQUENCY * time) + FREQUENCY * np.sin(FREQUENCY * time))
        result.append(wave + (f - forced * k) * np.exp(-k * time))
    return np.array(result)


def trajectory_error(problem: Any, measured: Modal, states: Any, amplitudes: Any) -> float:
    """‖I u_h − u‖ in L2(0, T; L2), by Gauss quadrature on each step."""
    points, weights = np.polynomial.legendre.leggauss(3)
    total = 0.0
    for n, step in enumerate(np.diff(problem.times)):
        for place, weight in zip((points + 1) / 2, weights / 2, strict=True):
            state = (1 - place) * states[n] + place * states[n + 1]
            error, _ = measured.distance(
                problem.spaces.with_ghosts(state), amplitudes(problem.times[n] + place * step)
            )
            total += step * weight * error**2
    return float(np.sqrt(total))


def heat_outcome(problem: Any, term: str, enriched: bool = False) -> Outcome:
    """One deletion of a heat equation with a known solution."""
    bound = certify_deletion(problem, term, enriched=enriched)
    assert bound, bound.reason
    measured, dim = Modal(problem.spaces.space), problem.discretisation.mesh.topology.dim
    pairs = [
        diffusion_and_reaction(c)
        for c in (problem.coefficients, {**problem.coefficients, term: 0.0})
    ]
    first, second = problem.factual.states, problem.solve(cf.delete(term)).states
    gap = [a - b for a, b in zip(first, second, strict=True)]

    def exact(k: int, time: float) -> np.ndarray:
        return heat_amplitudes(dim, *pairs[k], time)

    def difference(time: float) -> np.ndarray:
        return exact(0, time) - exact(1, time)

    def error(states: Any, amplitudes: Any) -> float:
        return trajectory_error(problem, measured, states, amplitudes)

    return Outcome(
        problem.spaces.elements[u].degree,
        term,
        dict(problem.coefficients),
        (error(first, lambda time: exact(0, time)), bound.eta_factual),
        (error(second, lambda time: exact(1, time)), bound.eta_counterfactual),
        (error(gap, difference), bound.difference),
        error([0 * state for state in gap], difference),
        bound.score,
        bound.margin,
    )


def reference_outcome(problem: Any, reference: Any, term: str, enriched: bool = False) -> Outcome:
    """One deletion against a solution of high degree on the same mesh."""
    bound = certify_deletion(problem, term, enriched=enriched)
    assert bound, bound.reason
    norm = reference.norm("L2")

    def raised(solution: Any) -> np.ndarray:
        function = fem.Function(reference.spaces.space)
        function.interpolate(solution.function())
        return function.x.array[: reference.spaces.owned].copy()

    exact, exact_deleted = reference.factual.states[0], reference.solve(cf.delete(term)).states[0]
    first, second = raised(problem.factual), raised(problem.solve(cf.delete(term)))
    return Outcome(
        problem.spaces.elements[u].degree,
        term,
        dict(problem.coefficients),
        (norm(exact - first), bound.eta_factual),
        (norm(exact_deleted - second), bound.eta_counterfactual),
        (norm(exact - exact_deleted - first + second), bound.difference),
        norm(exact - exact_deleted),
        bound.score,
        bound.margin,
    )


def random_reaction_diffusion(random: Any) -> dict[str, float]:
    """Coefficients with decay or growth below the first eigenvalue 2π² of the square."""
    diffusion = float(10 ** random.uniform(-1.5, 0.5))
    reaction = float(random.uniform(-0.8, 2.0)) * diffusion * 19.7
    return {
        "lap": diffusion,
        "mixing": float(random.uniform(0.01, 1.0)) * diffusion,
        "u": -reaction,
    }


def random_advection(random: Any) -> dict[str, float]:
    coefficients = random_reaction_diffusion(random)
    coefficients["u"] = -float(random.uniform(0.0, 1.0)) * coefficients["lap"] * 10
    speed = coefficients["lap"] * random.uniform(0.1, 8.0)
    return {
        **coefficients,
        "u_x": -float(speed),
        "drift": float(random.uniform(-1, 1)) * coefficients["lap"] * 3,
    }


__all__ = [name for name in dir() if not name.startswith("_")] + ["certifier"]


def check_on_two_ranks(print_margins, on_ranks, capsys):
    """Two ranks print the margins that one does, to the digits that the order of sums leaves."""
    print_margins(MPI.COMM_SELF)
    printed = [capsys.readouterr().out, on_ranks(2, print_margins)]
    one, two = (
        [float(v) for v in text.split("margins ")[1].splitlines()[0].split()] for text in printed
    )
    assert one
    assert two == pytest.approx(one, rel=1e-8)
