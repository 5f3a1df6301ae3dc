"""What a study says it will cost, before it runs and after its factual solve."""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

from dolfinx.mesh import create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import lap
from cffem.study.run.plan import Price, plan
from cffem.study.run.progress import Progress
from cffem.study.run.settings import Settings, using

u = cf.ScalarField("u")


def study(mesh):
    library = cf.Library(terms={"lap": lap(u), "u": -u}, unknown=u)
    experiment = cf.Experiment(
        mesh=mesh, elements={u: ("Lagrange", 1)}, boundary=[cf.Dirichlet(u, 0)], forcing={u: 1}
    )
    return cf.Study(library, experiment, coefficients={"lap": 1.0, "u": 1.0})


class Said(Progress):
    """Keeps what was said."""

    def __init__(self):
        super().__init__()
        self.notes = []

    def note(self, text):
        self.notes.append(text)


def test_a_plan_and_a_run_name_the_price_of_error_bars(tmp_path):
    asked = study(cf.mesh.square(MPI.COMM_SELF, 0.2))
    assert "for error bars" in plan(asked).splitlines()[-1]
    said = Said()
    with using(Settings(progress=said)):
        asked.run(tmp_path / "out")
    assert len(said.notes) == 1
    assert "for the solves and" in said.notes[0]
    with using(Settings(progress=said, resume=True)):
        asked.run(tmp_path / "out")
    assert len(said.notes) == 1


def test_levels_below_are_cheaper_than_levels_above():
    prices = []
    for mesh in (cf.mesh.square(MPI.COMM_SELF, 0.2), create_unit_square(MPI.COMM_SELF, 5, 5)):
        asked = study(mesh)
        model = cf.Model(asked.library, asked.coefficients, next(iter(asked.experiments.values())))
        prices.append(Price.of(model, 1.0, 1.0).bars(1, 2))
    # A twentieth of the solves for comparing levels, and three tenths of a second for their models.
    assert prices == [pytest.approx(0.3125 * 4 + 0.45), pytest.approx(20.0 * 4 + 0.45)]


def test_edge_elements_on_a_few_cells_are_expected_to_need_the_next_degree():
    electric = cf.VectorField("E", dim=3)
    library = cf.Library(
        anchor=cf.dt(cf.dt(electric)), terms={"curls": -cf.curl(cf.curl(electric))}
    )
    found = {}
    for kind in ("N1curl", "Lagrange"):
        elements = (kind, 1)
        boundary = [cf.Tangential(electric, (0, 0, 0))]
        if kind == "Lagrange":
            boundary = [cf.Dirichlet(electric, (0, 0, 0))]
        experiment = cf.Experiment(
            mesh=cf.mesh.box(MPI.COMM_SELF, 0.4),
            elements={electric: elements},
            boundary=boundary,
            initial={electric: (0, 0, 0), cf.dt(electric): (0, 0, 0)},
            time=cf.Window(0, 1, steps=4),
        )
        found[kind] = Price.of(cf.Model(library, {"curls": 1.0}, experiment), 1.0, 1.0)
    assert found["Lagrange"].raised is None
    larger, same = found["N1curl"].raised
    assert larger < same
    assert found["N1curl"].bars(4, 1) > found["Lagrange"].bars(4, 1)
