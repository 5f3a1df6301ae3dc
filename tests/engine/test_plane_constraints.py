"""Constraints in the plane: a curl that vanishes is enforced exactly by the multiplier chosen
for it; a mean is no constraint.
"""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from dolfinx.mesh import CellType, create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import x, y

E, u = cf.VectorField("E", dim=2), cf.ScalarField("u")


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize(
    ("element", "cell"),
    [
        (("N1curl", 1), CellType.triangle),
        (("N1curl", 2), CellType.triangle),
        (("N1curl", 1), CellType.quadrilateral),
    ],
)
def test_the_curl_vanishes_in_every_solve(element, cell, closed):
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 4, 4, cell),
        elements={E: element},
        initial={E: (sp.sin(3 * y), x * y)},
        boundary=[cf.Tangential(E, (0, 0)) if closed else cf.Neumann(E, (0, 0))],
        time=cf.Window(0, 0.1, steps=2),
        constraint=cf.CurlFree(E),
    )
    library = cf.Library(anchor=cf.dt(E), terms={"E": E, "curlcurl": cf.curl(cf.curl(E))})
    with cf.Model(library, {"E": 0.3, "curlcurl": -1.0}, experiment) as model:
        for solution in (model.factual, model.solve(cf.delete("E"))):
            curl = abs(solution.norm("H(curl)") ** 2 - solution.norm() ** 2) ** 0.5
            assert (
                curl < 1e-6 * solution.norm()
            )  # the root of a difference of squares that agree to 1e-13
            assert solution.norm() > 1e-2
        assert model.deletions(["curlcurl"])["curlcurl"].score < 1e-10


def test_a_zero_mean_is_refused_as_a_constraint_of_solves():
    experiment = cf.Experiment(
        mesh=create_unit_square(MPI.COMM_SELF, 2, 2),
        elements={u: ("Lagrange", 1)},
        boundary=[cf.Neumann(u, 0)],
        forcing={u: sp.cos(sp.pi * x)},
        constraint=cf.ZeroMean(u),
    )
    with pytest.raises(cf.InputError, match="a zero mean of u is a class to project onto"):
        cf.Model(cf.Library(terms={"lap": cf.lap(u)}), {"lap": 1.0}, experiment)
