"""Studies of discontinuous elements: TOML, the fluxes in the scope, error bars, resume, report and
ranks.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import resumed, timeless, written

from cffem.study.report.report import Report
from cffem.study.toml.study_file import read_study

TOML = """
[fields]
u = "scalar"

[library]
anchor = "dt(u)"
[library.terms]
{terms}

[coefficients]
{coefficients}

[[experiments]]
mesh = {{ shape = "interval", h = 0.1 }}
elements = {{ u = ["DG", 1] }}
initial = {{ u = "1 + sin(2*pi*x)/2" }}
boundary = [{boundary}]
time = {{ end = 0.2, steps = 8 }}

[certification]
epsilon = 1e-2

[observables.mass]
type = "Integral"
expr = "u"
epsilon = 1e-3
"""
WALLS = '{ type = "Dirichlet", field = "u", value = 1, on = "all" }'
RING = '{ type = "Periodic", on = "right", to = "left" }'
STUDIES = {
    "advection–diffusion": TOML.format(
        terms='adv = "-diff(u, x)"\nlap = "lap(u)"\nu = "-u"',
        coefficients="adv = 1.0\nlap = 0.05\nu = 0.01",
        boundary=WALLS,
    ),
    "Burgers": TOML.format(
        terms='adv = "-diff(u**2/2, x)"\nu = "-u"',
        coefficients="adv = 1.0\nu = 0.01",
        boundary=RING,
    ),
}
FLUXES = {
    "advection–diffusion": ("upwind", "interior penalty"),
    "Burgers": ("Lax and Friedrichs",),
}


def study(name, folder, comm=MPI.COMM_SELF):
    return read_study(written(folder, STUDIES[name]), comm)


@pytest.mark.parametrize("name", STUDIES)
def test_a_resumed_study_has_the_report_of_a_whole_one(name, tmp_path, monkeypatch):
    whole = study(name, tmp_path).run(out=tmp_path / "whole", quiet=True)
    for flux in FLUXES[name]:
        assert flux in " ".join(str(whole).split())
    for term in whole.terms.values():
        assert term.decision in ("relevant", "irrelevant")
        assert term.certificate == "estimated"
    again = resumed(lambda: study(name, tmp_path), tmp_path / "part", monkeypatch)
    first, second = (timeless(json.loads(each.to_json())) for each in (whole, again))
    assert first == second
    page = (tmp_path / "part" / "report.html").read_text()
    assert all(flux in page for flux in FLUXES[name])
    assert (
        Report.from_json((tmp_path / "part" / "report.json").read_text()).terms.keys()
        == whole.terms.keys()
    )


def found_on(comm, folder):
    mine = {name: study(name, folder, comm).run(quiet=True) for name in STUDIES}
    return {
        name: {n: [t.decision, t.deletion, t.margin] for n, t in report.terms.items()}
        for name, report in mine.items()
    }


def body_of_ranks(comm):
    with tempfile.TemporaryDirectory() as folder:
        found = found_on(comm, Path(comm.bcast(folder)))
        comm.barrier()
    if comm.rank == 0:
        print("found", json.dumps(found))


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_decisions_and_scores_do_not_depend_on_the_number_of_ranks(ranks, on_ranks, tmp_path):
    alone = found_on(MPI.COMM_SELF, tmp_path)
    others = json.loads(on_ranks(ranks, body_of_ranks).split("found ")[1])
    for name, terms in alone.items():
        for term, (decision, score, margin) in terms.items():
            there = others[name][term]
            assert there[0] == decision
            assert there[1] == pytest.approx(score, rel=1e-8)
            assert there[2] == pytest.approx(margin, rel=1e-5)
