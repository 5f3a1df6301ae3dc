# SPDX-License-Identifier: MIT
"""Levels adapted to the difference of two solutions: their orders, their error bars, the names that
they carry, on any number of ranks, and reached from a study.
"""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem, mesh
from mpi4py import MPI

import cffem as cf
from cffem.bounds.levels.adapted import AdaptedLevels, threshold
from cffem.bounds.levels.around import BELOW, LevelsAround
from cffem.bounds.levels.coarser import cells_of
from cffem.bounds.levels.ladders import refined_domain
from cffem.bounds.refining import Refinement
from cffem.engine.mesh.meshes import MeshData
from cffem.verdicts.until_decided import decide_by_refinement

u = cf.ScalarField("u")


def corner(comm, degree=2, h=0.25):
    """Δu − u − 50 u³ = −1 on an L-shape with u = 0 on its boundary: singular at the corner."""
    library = cf.Library(terms={"lap": cf.lap(u), "u": u, "cube": -(u**3)}, unknown=u)
    experiment = cf.Experiment(
        mesh=cf.mesh.l_shape(comm, h),
        elements={u: ("Lagrange", degree)},
        boundary=[cf.Dirichlet(u, 0)],
        forcing={u: 1},
    )
    return cf.Model(library, {"lap": 1.0, "u": -1.0, "cube": 50.0}, experiment)


def score(model):
    return model.factual.distance(model.solve(cf.delete("u")))


@pytest.fixture(scope="module")
def exact():
    """The score on adapted cells of another degree, far finer at the corner."""
    with corner(MPI.COMM_SELF, degree=3, h=0.15) as model:
        levels = AdaptedLevels(model, {"u": cf.delete("u")}, "L2")
        found = score(levels.model(9))
        levels.destroy()
    return found


def slope(sizes, errors):
    return -np.polyfit(np.log(sizes), np.log(errors), 1)[0]


def test_adapted_levels_converge_as_if_there_were_no_corner(exact):
    """The score of degree 2 converges like N^(-2/3) where all cells are divided, as the corner
    allows, and faster than N^(-3/2), the order of smooth solutions, on adapted cells.
    """
    with corner(MPI.COMM_SELF) as model:
        orders = []
        for adapt, count in ((True, 6), (False, 4)):
            levels = Refinement(model, cf.Certification(effort=1e3), adapt=adapt)
            if adapt:
                levels._ladder = AdaptedLevels(model, {"u": cf.delete("u")}, "L2")
            models = [levels.model(level) for level in range(count)]
            sizes = [each.spaces.size for each in models]
            orders.append(slope(sizes, [abs(score(each) - exact) for each in models]))
            levels.destroy()
    assert orders[0] > 1.5
    assert orders[1] == pytest.approx(2 / 3, abs=0.15)


def test_error_bars_of_adapted_levels_cover_and_shrink(exact):
    with corner(MPI.COMM_SELF) as model:
        levels = Refinement(model, cf.Certification(epsilon=exact), {}, {"u": cf.delete("u")})
        bars = []
        for level in range(5):
            bound = levels(("u",), level)["u"]
            assert bound.certificate.kind == "estimated"
            assert abs(bound.score - exact) <= bound.margin
            bars.append(bound.margin)
        # On the given level, beyond which nothing may be allowed, dearer ways are tried as well.
        assert all(after < before for before, after in pairwise(bars[1:]))
        size = levels.model(4).spaces.size
        assert "cells divided where u − u_j is rough" in levels.words
        levels.destroy()
        # Cells that are all divided twice give a bar that is twice as wide, for more unknowns.
        every = Refinement(model, cf.Certification(epsilon=exact), adapt=False)
        finer = every.model(2)
        assert finer.spaces.size > size
        assert below(finer).margin > 2 * bars[-1]
        every.destroy()


def below(model):
    """The bound from the levels below the one of a model."""
    return LevelsAround(model, BELOW).deletion("u")


def test_coarser_meshes_have_the_grading_of_the_adapted_one():
    """All cells are larger by a factor, those at the corner as well."""
    with corner(MPI.COMM_SELF) as model:
        levels = AdaptedLevels(model, {"u": cf.delete("u")}, "L2")
        adapted = levels.model(5)
        domain = adapted.discretisation.domain
        for factor in (2.0, 4.0):
            coarser = domain.remade(factor, MPI.COMM_SELF)
            ratio = cells_of(adapted) / coarser.mesh.topology.index_map(2).size_global
            assert (0.75 * factor) ** 2 < ratio < (1.25 * factor) ** 2
            assert smallest(coarser.mesh) > 0.9 * factor * smallest(domain.mesh)
        levels.destroy()


def smallest(domain):
    sizes = domain.h(2, np.arange(domain.topology.index_map(2).size_local))
    return float(sizes.min())


def tagged(cells):
    """A square or a box of two materials, with named sides and a named line between them."""
    if cells == "triangle":
        domain = mesh.create_unit_square(MPI.COMM_SELF, 4, 4)
    else:
        domain = mesh.create_unit_cube(MPI.COMM_SELF, 3, 4, 3)
    tdim = domain.topology.dim
    domain.topology.create_connectivity(tdim - 1, tdim)
    count = domain.topology.index_map(tdim).size_local
    upper = mesh.compute_midpoints(domain, tdim, np.arange(count, dtype=np.int32))[:, 1] > 0.5
    materials = mesh.meshtags(
        domain, tdim, np.arange(count, dtype=np.int32), np.where(upper, 2, 1).astype(np.int32)
    )
    places = {3: lambda x: np.isclose(x[1], 0.5), 4: lambda x: np.isclose(x[0], 1.0)}
    found = {tag: mesh.locate_entities(domain, tdim - 1, place) for tag, place in places.items()}
    facets = np.concatenate(list(found.values()))
    values = np.concatenate([np.full(len(f), tag, dtype=np.int32) for tag, f in found.items()])
    order = np.argsort(facets)
    sides = mesh.meshtags(domain, tdim - 1, facets[order], values[order])
    names = {"low": (tdim, 1), "high": (tdim, 2), "between": (tdim - 1, 3), "right": (tdim - 1, 4)}
    return MeshData(domain, materials, sides, names)


def measures(data):
    """The volume of each material, the size of the side, and that of the line between them."""
    one = fem.Constant(data.mesh, 1.0)
    dx = ufl.Measure("dx", data.mesh, subdomain_data=data.cell_tags)
    ds = ufl.Measure("ds", data.mesh, subdomain_data=data.facet_tags)
    inner = ufl.Measure("dS", data.mesh, subdomain_data=data.facet_tags)
    forms = [one * dx(1), one * dx(2), one * ds(4), ufl.avg(one) * inner(3)]
    return [fem.assemble_scalar(fem.form(form)) for form in forms]


@pytest.mark.parametrize("cells", ["triangle", "tetrahedron"])
def test_materials_and_names_are_carried_to_cells_that_are_divided(cells):
    data = tagged(cells)
    given, generator = measures(data), np.random.default_rng(3)
    for _ in range(3):
        count = data.mesh.topology.index_map(data.mesh.topology.dim).size_local
        chosen = np.flatnonzero(generator.random(count) < 0.2).astype(np.int32)
        finer, parents = refined_domain(data, chosen)
        assert count < len(parents) < 8 * count
        assert np.bincount(parents, minlength=count)[chosen].min() >= 4
        assert finer.names == data.names
        assert measures(finer) == pytest.approx(given, rel=1e-12)
        data = finer


def test_the_share_of_the_largest_indicators_is_marked():
    values = np.array([5.0, 1.0, 3.0, 1.0])
    assert np.flatnonzero(values >= threshold(values, 0.5, MPI.COMM_SELF)).tolist() == [0]
    assert np.flatnonzero(values >= threshold(values, 0.8, MPI.COMM_SELF)).tolist() == [0, 2]


def test_a_mesh_that_nobody_can_make_again_is_divided_everywhere():
    with corner(MPI.COMM_SELF) as model:
        plain = cf.Model(
            model.library,
            model.coefficients,
            cf.Experiment(
                mesh=mesh.create_unit_square(MPI.COMM_SELF, 4, 4),
                elements={u: ("Lagrange", 2)},
                boundary=[cf.Dirichlet(u, 0)],
                forcing={u: 1},
            ),
        )
        levels = Refinement(plain, cf.Certification(effort=1e3), {}, {"u": cf.delete("u")})
        assert levels.model(1).spaces.size == 17**2
        assert "refined" in levels.words
        levels.destroy()


def verdicts(comm):
    """Print the verdicts of adapted levels and what they were made on."""
    with corner(comm) as model:
        levels = Refinement(model, cf.Certification(), {}, {"u": cf.delete("u")})
        found = decide_by_refinement(["u"], 0.01083, levels)["u"]
        size = levels.model(found.level).spaces.size
        levels.destroy()
    if comm.rank == 0:
        print(json.dumps([found.decision, found.level, size, found.score, found.margin]))


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_verdicts_are_the_same_on_any_number_of_ranks(on_ranks, capsys, ranks):
    verdicts(MPI.COMM_SELF)
    decision, level, size, *numbers = json.loads(capsys.readouterr().out)
    assert decision == "relevant"
    assert level > 1
    lines = [line for line in on_ranks(ranks, verdicts).splitlines() if line.startswith("[")]
    found = json.loads(lines[-1])
    assert found[:3] == [decision, level, size]
    assert found[3:] == pytest.approx(numbers, rel=1e-6)


STUDY = """
[fields]
u = "scalar"
[library]
unknown = "u"
[library.terms]
lap = "lap(u)"
u = "u"
cube = "-u**3"
[coefficients]
lap = 1.0
u = -1.0
cube = 50.0
[[experiments]]
mesh = { shape = "l_shape", h = 0.25 }
elements = { u = ["Lagrange", 2] }
boundary = [{ type = "Dirichlet", field = "u", value = 0, on = "all" }]
forcing = { u = 1 }
[certification]
epsilon = 0.01083
refine = true
"""


def test_a_study_in_toml_refines_where_the_difference_needs_it(tmp_path):
    from cffem.study.toml.study_file import read_study

    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    report = read_study(path, MPI.COMM_SELF).run(tmp_path / "out", quiet=True)
    entry = {each["term"]: each for each in report.sections["sets"]["verdicts"]}["u"]
    assert entry["decision"] == "relevant"
    assert "cells divided where u − u_j is rough" in entry["method"]
    again = read_study(path, MPI.COMM_SELF).run(tmp_path / "out", quiet=True, resume=True)
    assert again.sections["sets"]["verdicts"] == report.sections["sets"]["verdicts"]
