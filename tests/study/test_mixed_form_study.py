"""A study of Darcy flow on RT × DG0: every station takes elements of degree 0."""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import div, grad, x, y
from cffem.study.toml.study_file import read_study


def test_a_mixed_form_with_piecewise_constants_is_studied():
    q, p = cf.VectorField("q", dim=2), cf.ScalarField("p")
    darcy = cf.System(
        {
            q: cf.Library(anchor=q, terms={"grad p": -grad(p), "gravity": (0, -1)}),
            p: cf.Library(terms={"div": -div(q), "leak": -p}, unknown=p),
        }
    )
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.2),
        elements={q: ("RT", 1), p: ("DG", 0)},
        boundary=[cf.Dirichlet(q, 0)],
        forcing={p: sp.exp(-20 * ((x - 0.5) ** 2 + (y - 0.5) ** 2))},
    )
    coefficients = {"q/grad p": 1.0, "q/gravity": 1.0, "p/div": 1.0, "p/leak": 0.01}
    certification = cf.Certification(epsilon=1e-2, relative=True)
    report = cf.Study(
        darcy, experiment, coefficients=coefficients, certification=certification
    ).run()
    rows = {row.split()[0]: row for row in str(report).splitlines() if row.startswith("q/gravity")}
    assert "relevant" in rows["q/gravity"]
    # Without gravity q = −grad p with a p of the same mean; gravity alone moves p by 1/2 − y, whose
    # L2 norm is 0.2887.
    assert "0.28" in rows["q/gravity"] or "0.29" in rows["q/gravity"]


def test_tangential_conditions_and_balance_can_be_said_in_toml(tmp_path):
    (tmp_path / "study.toml").write_text(
        """
[fields]
v = { vector = 2 }
[library]
unknown = "v"
[library.terms]
lap = "lap(v)"
drag = "-v"
[coefficients]
lap = 0.1
drag = 1.0
[[experiments]]
mesh = { shape = "square", h = 0.5 }
elements = { v = ["RT", 1] }
forcing = { v = ["y", "0"] }
constraint = { type = "DivergenceFree", field = "v" }
boundary = [
    { type = "Dirichlet", field = "v", value = ["y - 1/2", "1/2 - x"], balance = true },
    { type = "Tangential", field = "v", value = ["y - 1/2", "1/2 - x"] },
]
"""
    )
    study = read_study(tmp_path / "study.toml", MPI.COMM_SELF)
    (experiment,) = study.experiments.values()
    assert [str(c).endswith("balance=True)") for c in experiment.boundary] == [True, False]
    assert cf.Model(study.library, study.coefficients, experiment).solve().norm() > 0
