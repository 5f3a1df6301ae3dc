"""Strips, spikes and jumps between quadrature points are in guaranteed bounds, whatever makes
them and however low they are.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from bounds_support import u
from dolfinx import mesh
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y
from cffem.engine.inputs.numeric import numeric

LINE = np.linspace(0, 1, 100001)
MODES = np.arange(1, 300)
WAVES = np.sin(np.pi * np.outer(MODES, LINE))
REACTION = -5.0


def square(n):
    return mesh.create_unit_square(MPI.COMM_SELF, n, n)


def sines(function):
    """2 ∫ f sin(kπx) of a function of x."""
    values = np.broadcast_to(numeric(function, (x,))(LINE), LINE.shape)
    return 2 * np.trapezoid(WAVES * values, dx=LINE[1] - LINE[0], axis=1)


def steady(forcing, n, degree):
    library = cf.Library(terms={"lap": lap(u), "u": u}, unknown=u)
    experiment = cf.Experiment(
        mesh=square(n),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: forcing},
    )
    return cf.Model(library, {"lap": 1.0, "u": REACTION}, experiment)


def check(model, truth, size):
    """The score and the norm of the solution are as near to the true ones as is stated."""
    bound, certificate = cf.certify_deletion(model, "u"), cf.certify_solution(model)
    assert bound.certificate.kind == certificate.kind == "guaranteed"
    assert abs(bound.score - truth) <= bound.margin
    assert abs(model.factual.norm() - size) <= certificate.value
    return bound, certificate


@pytest.mark.parametrize(("degree", "low", "high"), [(2, 0.5599, 0.6282), (3, 0.3764, 0.4176)])
def test_low_strips_in_every_column_of_cells_are_covered(degree, low, high):
    """Strips of 9 % between the points of the rules that were used once, in every cell."""
    n = 8
    width, middle = (high - low) * 0.96, (low + high) / 2 / n
    strips = sp.Heaviside(sp.cos(2 * sp.pi * n * (x - middle)) - math.cos(math.pi * width))
    source = 100 + 9 * strips
    forces = sines(source)
    eigen = math.pi**2 * (MODES**2 + 1)
    factual, other = forces / (eigen - REACTION), forces / eigen
    model = steady(source * sp.sin(sp.pi * y), n, degree)
    check(model, 0.5 * np.linalg.norm(factual - other), 0.5 * np.linalg.norm(factual))


SPIKES = {
    "cosh": (lambda a, b: 1 / sp.cosh(a) ** 2 / sp.cosh(b) ** 2, 4.0),
    "power of two": (lambda a, b: 2 ** (-(a**2) - b**2), math.pi / math.log(2)),
    "sign": (lambda a, b: (1 + sp.sign(1 - a**2 - b**2)) / 2, math.pi),
    "erf": (
        lambda a, b: (sp.erf(a + 1) - sp.erf(a - 1)) * (sp.erf(b + 1) - sp.erf(b - 1)) / 4,
        4.0,
    ),
    "Max and Min": (lambda a, b: sp.Max(0, 1 - sp.Abs(a)) * (1 - sp.Min(1, sp.Abs(b))), 1.0),
    "real power": (lambda a, b: (1 + a**2 + b**2) ** sp.Rational(-5, 2), 2 * math.pi / 3),
    "pieces": (
        lambda a, b: sp.Piecewise((1 - a**2 - b**2, a**2 + b**2 < 1), (0, True)),
        math.pi / 2,
    ),
}


@pytest.mark.parametrize("name", SPIKES)
def test_spikes_of_every_function_are_covered(name):
    shape, mass = SPIKES[name]
    n, width, height = 8, 1e-3, 1e5
    place = (4.47 / n, 4.21 / n)
    spike = height * shape((x - place[0]) / width, (y - place[1]) / width)
    model = steady(1 + spike, n, 2)
    index = np.arange(1, 400)
    waves = [np.sin(index * math.pi * centre) for centre in place]
    plain = 2 * (1 - (-1.0) ** index) / (index * math.pi)
    forces = 4 * mass * height * width**2 * np.outer(*waves) + np.outer(plain, plain)
    eigen = math.pi**2 * (index[:, None] ** 2 + index**2)
    truth, size = (
        0.5 * np.linalg.norm(forces * part)
        for part in (1 / (eigen - REACTION) - 1 / eigen, 1 / (eigen - REACTION))
    )
    bound, _ = check(model, truth, size)
    assert bound.margin < 0.3  # a spike of this mass moves the solution by about 0.03


STARTS = {
    "incompatible with the wall": sp.S.One,
    "a kink": sp.Abs(x - sp.Rational(37, 100)),
    "a jump": sp.Piecewise((1, x < 0.43), (0, True)),
    "aliased": sp.sin(12 * sp.pi * x),
    "low strips": sp.sin(sp.pi * x) + 0.09 * sp.Heaviside(sp.cos(12 * sp.pi * (x - 0.099)) - 0.95),
}


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("scheme", ["backward-euler", "sdirk2"])
def test_rough_initial_values_are_covered(name, scheme):
    diffusion, reaction, end, start = 0.05, -0.5, 0.5, STARTS[name]
    experiment = cf.Experiment(
        mesh=square(6),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Dirichlet(u, 0)],
        initial={u: start * sp.sin(sp.pi * y)},
        time=cf.Window(0, end, steps=8, scheme=scheme),
    )
    library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "u": u})
    model = cf.Model(library, {"lap": diffusion, "u": reaction}, experiment)
    amplitudes, decay = sines(start), diffusion * math.pi**2 * (MODES**2 + 1)

    def squared(rate):
        return (1 - np.exp(-rate * end)) / rate

    gap = squared(2 * decay - 2 * reaction) - 2 * squared(2 * decay - reaction) + squared(2 * decay)
    truth, size = (
        0.5 * math.sqrt(float((amplitudes**2 * part).sum()))
        for part in (gap, squared(2 * decay - 2 * reaction))
    )
    check(model, truth, size)
