"""Studies whose time steps differ or are chosen: TOML, scope, resume, error bars and ranks."""

from __future__ import annotations

import json

import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import TOML, timeless, written

import cffem as cf
from cffem import dt, lap, x
from cffem.engine.time import adaptive
from cffem.study.run import running
from cffem.study.toml.study_file import read_study

u = cf.ScalarField("u")
LIBRARY = cf.Library(dt(u), {"u": u, "u_x": u.diff(x), "lap": lap(u)})


class Halt(BaseException):
    """Ends a run in the middle."""


def study(window: cf.Window, comm=MPI.COMM_SELF, **more) -> cf.Study:
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, 1 / 24),
        elements={u: ("Lagrange", 2)},
        initial={u: sp.sin(sp.pi * x) + sp.sin(6 * sp.pi * x)},
        boundary=[cf.Dirichlet(u, 0)],
        time=window,
    )
    asked = cf.Certification(epsilon=0.02, relative=True)
    coefficients = {"u": 0.5, "u_x": 0.01, "lap": 0.2}
    return cf.Study(LIBRARY, experiment, coefficients=coefficients, certification=asked, **more)


AUTO = cf.Window(0, 1, 8, "sdirk2", tolerance="auto")


def decisions(report) -> dict[str, str]:
    return {name: term.decision for name, term in report.terms.items()}


def test_verdicts_of_chosen_steps_are_those_of_equal_ones_and_the_scope_says_them(tmp_path):
    whole = study(AUTO).run(out=tmp_path / "whole", quiet=True)
    assert "were chosen for the factual solution with the tolerance 0.002" in " ".join(
        str(whole).split()
    )
    equal = study(cf.Window(0, 1, 200, "sdirk2")).run(quiet=True)
    assert decisions(whole) == decisions(equal)
    assert set(decisions(whole).values()) == {"relevant", "irrelevant"}
    for name, term in whole.terms.items():
        # Both bars are estimates of the error of one number.
        gap = abs(term.deletion - equal.terms[name].deletion)
        assert gap <= term.margin + equal.terms[name].margin
        assert term.certificate in ("guaranteed", "estimated")
    window = json.loads(whole.to_json())["scope"]["experiments"]["experiment 1"]["window"]
    assert window[2] < 100


def test_a_resumed_run_has_the_same_steps_without_choosing_again(tmp_path, monkeypatch):
    whole = study(AUTO).run(out=tmp_path / "whole", quiet=True)
    stored, count = running.Run.store, 0

    def halting(self, key, value, label):
        nonlocal count
        count += key.startswith("deletion")
        if count == 2:
            raise Halt
        return stored(self, key, value, label)

    monkeypatch.setattr(running.Run, "store", halting)
    with pytest.raises(Halt):
        study(AUTO).run(out=tmp_path / "part", quiet=True)
    monkeypatch.setattr(running.Run, "store", stored)
    monkeypatch.setattr(adaptive, "_Chooser", None)  # nothing is chosen again
    resumed = study(AUTO).run(out=tmp_path / "part", resume=True, quiet=True)
    first, second = (timeless(json.loads(each.to_json())) for each in (whole, resumed))
    assert first["terms"] == second["terms"]
    assert first["scope"] == second["scope"]


def test_levels_and_tolerances_in_toml(tmp_path):
    given = "time = { end = 0.5, steps = 8 }"
    levels = "time = { levels = [0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5], scheme = 'sdirk2' }"
    made = read_study(written(tmp_path, TOML.replace(given, levels)), MPI.COMM_SELF)
    (experiment,) = made.experiments.values()
    assert experiment.time == cf.Window.through([0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5], "sdirk2")
    report = made.run(quiet=True)
    assert set(decisions(report).values()) <= {"relevant", "irrelevant", "unresolved"}
    for text, tolerance in (("1e-3", 1e-3), ('"auto"', 1e-3)):
        chosen = f"time = {{ end = 0.5, steps = 8, tolerance = {text} }}"
        relative = TOML.replace("epsilon = 1e-2\n", "epsilon = 1e-2\nrelative = true\n", 1)
        made = read_study(written(tmp_path, relative.replace(given, chosen)), MPI.COMM_SELF)
        assert next(iter(made.experiments.values())).time.tolerance == pytest.approx(tolerance)
    for wrong in ("levels = 3", "levels = [0, 0]", "end = 1, steps = 2, tolerance = 'small'"):
        with pytest.raises(cf.InputError, match="time"):
            read_study(
                written(tmp_path, TOML.replace(given, f"time = {{ {wrong} }}")), MPI.COMM_SELF
            )


def test_auto_needs_a_relative_tolerance():
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1),
        elements={u: ("Lagrange", 1)},
        initial={u: 1},
        boundary=[cf.Dirichlet(u, 0)],
        time=AUTO,
    )
    with pytest.raises(cf.InputError, match="relative"):
        cf.Study(LIBRARY, experiment, coefficients={"lap": 1.0})


def test_ends_of_interventions_are_hit_by_dividing_single_steps():
    made = study(
        cf.Window(0, 1, 7, "sdirk2"),
        interventions={"late": cf.delete("u", during=(0.123, 1.0))},
    )
    (experiment,) = made.experiments.values()
    assert experiment.time.steps == 8
    report = made.run(quiet=True)
    assert 0 < report.interventions["late"].deletion < report.terms["u"].deletion
    assert "8 time steps instead of 7" in " ".join(str(report).split())


def body_of_ranks(comm):
    mine, alone = (study(AUTO, each).run(quiet=True) for each in (comm, MPI.COMM_SELF))
    assert decisions(mine) == decisions(alone)
    for name, term in mine.terms.items():
        assert term.deletion == pytest.approx(alone.terms[name].deletion, rel=1e-8)
    scopes = [json.loads(each.to_json())["scope"]["experiments"] for each in (mine, alone)]
    assert scopes[0]["experiment 1"]["window"] == scopes[1]["experiment 1"]["window"]


@pytest.mark.mpi
@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_chosen_steps_do_not_depend_on_the_number_of_ranks(on_ranks, ranks):
    on_ranks(ranks, body_of_ranks)
