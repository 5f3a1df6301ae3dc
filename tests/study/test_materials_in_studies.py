"""Known fields, weights and terms in parts go through a whole study: TOML, checkpoint, report."""

from __future__ import annotations

import json

import numpy as np
import pytest
import sympy as sp

pytest.importorskip("dolfinx")

from mpi4py import MPI
from study_support import result

import cffem as cf
from cffem import div, dt, grad, on, x
from cffem.cli import main
from cffem.study.run.checkpoint import OutputError
from cffem.study.toml.study_file import read_study

TOML = """
[fields]
u = "scalar"

[known.k]
values = { glass = 2.25, air = 1.0 }
[known.rho]
values = "1 + x"
[known.w]
vector = 1
file = "wind.npz"
array = ["w"]
coordinates = { x = "x" }

[library]
anchor = "rho*dt(u)"
[library.terms]
diffusion = "div(k*grad(u))"
drift = "-w[0]*diff(u, x)"
cooling = { term = "-u", on = "glass" }
loss = { term = "-u", on = "right" }

[coefficients]
diffusion = 0.1
drift = 0.3
cooling = 1.0
loss = 0.5

[[experiments]]
mesh = "two.msh"
elements = { u = ["Lagrange", 2] }
initial = { u = "sin(pi*x/2)" }
boundary = [
  { type = "Dirichlet", field = "u", value = 0, on = "left" },
  { type = "Neumann", field = "u", value = 0, on = "right" },
]
time = { end = 0.3, steps = 4 }

[certification]
epsilon = 1e-2
budget = 1
"""
U, K, RHO, W = cf.ScalarField("u"), cf.Known("k"), cf.Known("rho"), cf.Known("w", dim=1)


@pytest.fixture(autouse=True)
def without_pages(monkeypatch):
    monkeypatch.setattr(
        "cffem.study.report.page.as_page", lambda report, drawing=None: "<!doctype html>"
    )


def two_materials(path, cells=8):
    """The unit interval as a gmsh file, glass on the left and air on the right."""
    names = [(0, 1, "left"), (0, 2, "right"), (1, 3, "glass"), (1, 4, "air")]
    points = np.linspace(0, 1, cells + 1)
    elements = [(15, 1, 1), (15, 2, cells + 1)]
    lines = [
        "$MeshFormat",
        "2.2 0 8",
        "$EndMeshFormat",
        "$PhysicalNames",
        str(len(names)),
        *(f'{d} {tag} "{name}"' for d, tag, name in names),
        "$EndPhysicalNames",
        "$Nodes",
        str(cells + 1),
        *(f"{i + 1} {p} 0 0" for i, p in enumerate(points)),
        "$EndNodes",
        "$Elements",
        str(cells + 2),
        *(f"{i + 1} 15 2 {tag} {tag} {node}" for i, (_, tag, node) in enumerate(elements)),
        *(f"{i + 3} 1 2 {3 if i < cells // 2 else 4} 1 {i + 1} {i + 2}" for i in range(cells)),
        "$EndElements",
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def folder(tmp_path, text=TOML):
    two_materials(tmp_path / "two.msh")
    places = np.linspace(0, 1, 9)
    np.savez(tmp_path / "wind.npz", x=places, w=1 - places**2)
    (tmp_path / "study.toml").write_text(text)
    return tmp_path / "study.toml"


def as_python(tmp_path, k=None, w=None):
    places = np.linspace(0, 1, 9)
    measured = cf.Dataset.from_arrays(
        {x: places}, {cf.VectorField("w", dim=1): np.array([1 - places**2])}
    )
    terms = {
        "diffusion": div(K * grad(U)),
        "drift": -W[0] * U.diff(x),
        "cooling": on("glass", -U),
        "loss": on("right", -U),
    }
    experiment = cf.Experiment(
        mesh=str(tmp_path / "two.msh"),
        elements={U: ("Lagrange", 2)},
        initial={U: sp.sin(sp.pi * x / 2)},
        boundary=[cf.Dirichlet(U, 0, on="left"), cf.Neumann(U, 0, on="right")],
        time=cf.Window(0, 0.3, steps=4),
        known={K: k or {"glass": 2.25, "air": 1.0}, RHO: 1 + x, W: w or measured},
        comm=MPI.COMM_SELF,
    )
    return cf.Study(
        cf.Library(RHO * dt(U), terms),
        experiment,
        coefficients={"diffusion": 0.1, "drift": 0.3, "cooling": 1.0, "loss": 0.5},
        certification=cf.Certification(epsilon=1e-2, budget=1),
    )


def test_toml_and_python_give_the_same_report_and_its_scope_names_the_values(tmp_path):
    assert main(["run", str(folder(tmp_path)), "--out", str(tmp_path / "toml"), "--quiet"]) == 0
    as_python(tmp_path).run(tmp_path / "python")
    assert result(tmp_path / "toml") == result(tmp_path / "python")
    report = json.loads((tmp_path / "toml" / "report.json").read_text())
    given = report["scope"]["experiment"]["known"]
    assert given == {"k": "2.25 in glass, 1 in air", "rho": "x + 1", "w": "measured data"}
    assert report["scope"]["library"]["cooling"] == "on('glass', -u)"
    assert report["scope"]["anchor"] == {"u": "rho*Derivative(u, t)"}
    scores = {term["name"]: term["deletion"] for term in report["terms"]}
    model = cf.Model(
        as_python(tmp_path).library,
        as_python(tmp_path).coefficients,
        next(iter(as_python(tmp_path).experiments.values())),
    )
    for name, deletion in model.deletions().items():
        assert scores[name] == pytest.approx(deletion.score, rel=1e-8)


def test_a_checkpoint_knows_known_fields_by_their_values(tmp_path):
    folder(tmp_path)
    as_python(tmp_path).run(tmp_path / "out")
    as_python(tmp_path).run(tmp_path / "out", resume=True)
    with pytest.raises(OutputError, match="known"):
        as_python(tmp_path, k={"glass": 2.5, "air": 1.0}).run(tmp_path / "out", resume=True)
    with pytest.raises(OutputError, match="known"):
        as_python(tmp_path, w=lambda p: 1 - p[:1] ** 2).run(tmp_path / "out", resume=True)
    two_materials(tmp_path / "two.msh", cells=8)
    text = (tmp_path / "two.msh").read_text().replace("6 1 2 3 1 4 5", "6 1 2 4 1 4 5")
    (tmp_path / "two.msh").write_text(text)
    with pytest.raises(OutputError, match="subdomains"):
        as_python(tmp_path).run(tmp_path / "out", resume=True)


def test_values_of_python_functions_count_by_content():
    from cffem.engine.inputs.known_fields import content_of

    domain = cf.mesh.named(cf.mesh.interval(MPI.COMM_SELF, 0.25).mesh)
    one, same, other = (content_of(K, f, domain) for f in (_first, lambda p: 1 + p[0], _other))
    assert one == same != other


def _first(p):
    return 1 + p[0]


def _other(p):
    return 1 + p[0] ** 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("glass = 2.25", "gas = 2.25"), "no subdomain 'gas'"),
        (("[known.rho]", "[known.sigma]"), "rho"),
        (('file = "wind.npz"', 'file = "../wind.npz"'), "outside|folder"),
        (("vector = 1", "vector = 9"), "known.w"),
        (('values = "1 + x"', 'values = "1 + u"'), "u"),
        (('on = "glass"', "on = 3"), "the name of a part of the mesh"),
        (("vector = 1", "vector = 1\ntensor = 1"), "not both"),
        (('values = "1 + x"', "value = 3"), "value"),
    ],
)
def test_what_is_wrong_in_a_file_is_said_in_one_sentence(tmp_path, change, words):
    path = folder(tmp_path, TOML.replace(*change))
    with pytest.raises(cf.InputError, match=words):
        read_study(path, MPI.COMM_SELF).run(tmp_path / "out")


def test_experiments_have_values_of_their_own(tmp_path):
    text = TOML.replace("[certification]", "[experiments.known]\nrho = 2.0\n[certification]")
    study = read_study(folder(tmp_path, text), MPI.COMM_SELF)
    (experiment,) = study.experiments.values()
    assert experiment.known[RHO] == 2.0
    assert experiment.known[K] == {"glass": 2.25, "air": 1.0}


def measured_heat():
    """Exact values of u_t = 0.1 u_xx."""
    places, times = np.linspace(0, 1, 41), np.linspace(0, 0.5, 41)
    at, when = np.meshgrid(places, times, indexing="ij")
    values = sum(
        np.exp(-0.1 * (n * np.pi) ** 2 * when) * np.sin(n * np.pi * at) / n for n in (1, 2)
    )
    return cf.Dataset.from_arrays({x: places, cf.t: times}, {U: values})


def heat_study(value, terms=None):
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1),
        elements={U: ("Lagrange", 2)},
        time=cf.Window(0, 0.5, steps=8),
        known={K: value},
    )
    library = cf.Library(dt(U), terms or {"diffusion": div(K * grad(U)), "u": U})
    certification = cf.Certification(epsilon=1e-2, budget=1)
    return cf.Study(library, experiment, data=measured_heat(), certification=certification)


def test_coefficients_of_terms_with_formulas_are_identified_from_fields(tmp_path):
    report = heat_study(2).run(tmp_path / "out")
    assert report.terms["diffusion"].coefficient == pytest.approx(0.05, rel=1e-2)
    with pytest.raises(cf.InputError, match="is no formula"):
        heat_study(lambda p: 2 + 0 * p[0])
    with pytest.raises(cf.InputError, match="which measured fields do not know"):
        heat_study(2, {"diffusion": div(K * grad(U)), "u": on("domain", U)})
    library = cf.Library(dt(U), {"diffusion": div(K * grad(U))})
    with pytest.raises(cf.InputError, match="contains a known field"):
        cf.Design.from_fields(library, [measured_heat()], "weak")


def test_initial_and_boundary_values_take_known_fields_that_no_formula_gives(tmp_path):
    """Values by subdomain and a file in the place of the numbers that they stand for."""
    text = TOML.replace('"sin(pi*x/2)"', '"sin(pi*x/2) + 0.1*w[0]"').replace(
        "value = 0, on", 'value = "0.1*w[0]*k/2.25", on', 1
    )
    assert (
        main(["run", str(folder(tmp_path, text)), "--out", str(tmp_path / "one"), "--quiet"]) == 0
    )
    plain = TOML.replace('"sin(pi*x/2)"', '"sin(pi*x/2) + 0.1*(1 - x**2)"').replace(
        "value = 0, on", "value = 0.1, on", 1
    )
    assert (
        main(["run", str(folder(tmp_path, plain)), "--out", str(tmp_path / "two"), "--quiet"]) == 0
    )
    found, expected = (
        {
            term["name"]: term["deletion"]
            for term in json.loads((tmp_path / name / "report.json").read_text())["terms"]
        }
        for name in ("one", "two")
    )
    # The file has nine points, between which it is linear.
    assert found == pytest.approx(expected, rel=2e-2)
