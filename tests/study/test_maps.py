"""Maps of where and when a change matters: exact cases, sums that are scores, files and pages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from dolfinx.mesh import create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y
from cffem.engine.deletion.change_density import ChangeDensities
from cffem.study.report.maps.effect_map import with_arrays

u, w = cf.ScalarField("u"), cf.ScalarField("w")
STRIP = sp.Piecewise((1, x > sp.Rational(9, 10)), (0, True))
EARLY = sp.Piecewise((1, cf.t < sp.Rational(1, 10)), (0, True))


def strip(comm=MPI.COMM_SELF):
    """u' = −u − χ u with χ = 1 for x > 0.9: nothing moves, so the drag acts in the strip only."""
    library = cf.Library(dt(u), {"decay": -u, "drag": -STRIP * u})
    experiment = cf.Experiment(
        mesh=create_unit_square(comm, 10, 10),
        elements={u: ("DG", 1)},
        initial={u: 1},
        time=cf.Window(0, 1, steps=10),
    )
    return library, experiment, {"decay": 1.0, "drag": 2.0}


def test_a_drag_that_matters_only_in_a_strip(tmp_path):
    library, experiment, coefficients = strip()
    certification = cf.Certification(epsilon=1e-3)
    report = cf.Study(
        library, experiment, coefficients=coefficients, certification=certification
    ).run(out=tmp_path / "results")
    drag, decay = report.maps["drag"], report.maps["decay"]
    assert drag.domain_share == pytest.approx(0.09)  # 90 % of a tenth
    np.testing.assert_allclose(drag.box[0], (0.9, 1.0), atol=1e-9)
    inside = drag.midpoints[:, 0] > 0.9
    assert np.all(drag.density[~inside] < 1e-20)
    np.testing.assert_allclose(drag.density[inside], drag.density[inside][0], rtol=1e-9)
    assert "90 % of the change lies in 9 % of the domain, in 0.9 ≤ x ≤ 1" in drag.sentence
    assert decay.domain_share > 0.8
    assert not decay.sentence
    # What the cells hold is the score.
    for name, each in report.maps.items():
        total = float((each.density * each.volumes).sum())
        assert total == pytest.approx(report.terms[name].deletion ** 2, rel=1e-8)
    again = cf.Report.read(tmp_path / "results")
    np.testing.assert_allclose(again.maps["drag"].density, drag.density, rtol=1e-6, atol=1e-12)
    page = (tmp_path / "results" / "report.html").read_text()
    assert "Where drag changes the solution" in page
    assert (tmp_path / "results" / "maps" / "maps.pvd").is_file()
    schema = json.loads((Path(cf.__file__).parent / "study/report/report.schema.json").read_text())
    pytest.importorskip("jsonschema").validate(
        json.loads((tmp_path / "results" / "report.json").read_text()), schema
    )


def test_a_source_that_matters_only_at_the_beginning():
    """u' = −20 u + f: what differs at the start is forgotten."""
    library = cf.Library(dt(u), {"sink": -u, "lap": lap(u)})
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.25),
        elements={u: ("Lagrange", 1)},
        initial={u: 1},
        boundary=[cf.Neumann(u, 0)],
        forcing={u: 20},
        time=cf.Window(0, 2, steps=80),
    )
    report = cf.Study(
        library,
        experiment,
        coefficients={"sink": 20.0, "lap": 1.0},
        interventions={"other start": cf.start({u: 2})},
        certification=cf.Certification(epsilon=1e-2),
    ).run()
    found = report.maps["other start"]
    assert found.window_share < 0.05
    assert found.interval[0] == 0.0
    assert "% of the window, between t = 0" in found.sentence
    np.testing.assert_allclose(found.growth[:3], np.exp(-40 * np.array(found.times[:3])), rtol=0.05)


def test_growth_and_cells_add_up_to_scores_of_systems():
    """Of two fields each is divided by its own norm; units do not change the map."""
    library = cf.System(
        {
            u: cf.Library(dt(u), {"lap": lap(u), "to": w}),
            w: cf.Library(dt(w), {"lap": lap(w), "sink": -w}),
        }
    )

    def density(unit):
        experiment = cf.Experiment(
            mesh=cf.mesh.square(MPI.COMM_SELF, 0.25),
            elements={u: ("Lagrange", 2), w: ("Lagrange", 1)},
            initial={u: sp.sin(sp.pi * x), w: unit * x * y},
            boundary=[cf.Dirichlet(u, 0), cf.Neumann(w, 0)],
            time=cf.Window(0, 0.1, steps=3),
        )
        coefficients = {"u/lap": 0.1, "u/to": 1 / unit, "w/lap": 0.1, "w/sink": 3.0}
        with cf.Model(library, coefficients, experiment) as model:
            changed = model.solve(cf.delete("w/sink"))
            found = ChangeDensities(model).of(changed)
            parts = [
                model.factual.distance(changed, f"L2[{f}]") / model.factual.norm(f"L2[{f}]")
                for f in (u, w)
            ]
            assert found.total.sum() == pytest.approx(np.hypot(*parts) ** 2, rel=1e-10)
            assert found.steps.sum() == pytest.approx(np.hypot(*parts) ** 2, rel=1e-10)
            return found.total

    np.testing.assert_allclose(density(1.0), density(1e4), rtol=1e-7)


def mapped(comm):
    library, experiment, coefficients = strip(comm)
    report = cf.Study(
        library, experiment, coefficients=coefficients, certification=cf.Certification(epsilon=1e-3)
    ).run()
    drag = report.maps["drag"]
    return (drag.density, drag.midpoints, drag.growth), drag.sentence


def body_of_maps(comm):
    arrays, sentence = mapped(comm)
    alone, words = mapped(MPI.COMM_SELF)
    for mine, theirs in zip(arrays, alone, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-14)
    assert sentence == words
    assert "of the domain" in sentence


@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [2, 3])
def test_maps_do_not_depend_on_the_number_of_ranks(on_ranks, ranks):
    on_ranks(ranks, body_of_maps)


def test_a_damaged_file_of_maps_is_told(tmp_path):
    library, experiment, coefficients = strip()
    report = cf.Study(library, experiment, coefficients=coefficients).run(out=tmp_path / "out")
    (tmp_path / "out" / "maps.npz").write_bytes(b"no archive")
    with pytest.raises(cf.InputError, match="maps"):
        with_arrays(tmp_path / "out", report.maps)
