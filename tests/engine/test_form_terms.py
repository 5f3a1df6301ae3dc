"""Terms given as UFL forms equal the same terms in symbols: solutions, scores, derivatives."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import ufl
from dolfinx import fem
from engine_support import unit
from mpi4py import MPI

import cffem as cf
from cffem import div, dot, dt, grad, lap, t, x, y
from cffem.symbols.form_terms import FormTerm, NoFormula

u, T = cf.ScalarField("u"), cf.ScalarField("T")
v = cf.VectorField("v", dim=2)

DIFFUSION = cf.Form(lambda u, v, dx: -ufl.inner(ufl.grad(u), ufl.grad(v)) * dx, linear=True)
NONLINEAR = cf.Form(lambda u, v, dx: -(1 + u**2) * ufl.inner(ufl.grad(u), ufl.grad(v)) * dx)
LOSS = cf.Form(lambda u, v, ds: -u * v * ds, linear=True)


def heat(terms, coefficients):
    experiment = cf.Experiment(
        mesh=unit("triangle", 4),
        elements={u: ("Lagrange", 2)},
        initial={u: 1 + x * y},
        boundary=[
            cf.Natural(u, y - u, on="right"),
            cf.Natural(u, 0, on=("left", "top", "bottom")),
        ],
        time=cf.Window(0, 0.3, steps=3),
    )
    return cf.Model(cf.Library(anchor=dt(u), terms=terms), coefficients, experiment)


PAIRS = {
    "linear": (DIFFUSION, lap(u)),
    "nonlinear": (NONLINEAR, div((1 + u**2) * grad(u))),
    "on the boundary": (
        LOSS,
        cf.on(("left", "right", "top", "bottom"), -u),
    ),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_a_form_is_the_term_it_says(kind):
    given, written = PAIRS[kind]
    models = [
        heat({"term": term, "u": u, "lap": u.diff(x, 2)}, {"term": 0.3, "u": -0.5, "lap": 0.1})
        for term in (given, written)
    ]
    assert np.allclose(models[0].factual.states[-1], models[1].factual.states[-1], atol=1e-11)
    sweeps = [model.deletions(conditions="kept") for model in models]
    for name in ("term", "u"):
        assert sweeps[0][name].score == pytest.approx(sweeps[1][name].score, rel=1e-5)
    observable = cf.Integral(u**2, at="end")
    scores = [model.observable_scores(observable).signed for model in models]
    for name in ("term", "u", "lap"):
        assert scores[0][name] == pytest.approx(scores[1][name], rel=1e-9)
    assert cf.taylor_linearised(models[0], "term").passed()
    assert cf.taylor_observable(models[0], observable, "term").passed()


def test_a_system_mixes_forms_and_symbols():
    """Buoyancy as a form with two fields, heat with transport as a form."""
    lift = cf.Form(lambda v, T, w, dx: T * w[1] * dx, fields=(v, T))
    carried = cf.Form(lambda T, v, s, dx: -ufl.dot(v, ufl.grad(T)) * s * dx, fields=(T, v))
    found = []
    for forms in (True, False):
        system = cf.System(
            {
                v: cf.Library(
                    terms={"visc": lap(v), "lift": lift if forms else T * cf.vector(0, 1)},
                    unknown=v,
                ),
                T: cf.Library(
                    terms={"lap": lap(T), "carried": carried if forms else -dot(v, grad(T))},
                    unknown=T,
                ),
            }
        )
        experiment = cf.Experiment(
            mesh=unit("triangle", 3),
            elements={v: ("Lagrange", 2), T: ("Lagrange", 1)},
            boundary=[
                cf.Dirichlet(v, 0),
                cf.Dirichlet(T, 0, on="left"),
                cf.Dirichlet(T, 1, on="right"),
                cf.Natural(T, 0, on=("top", "bottom")),
            ],
            constraint=cf.DivergenceFree(v),
        )
        names = ("v/visc", "v/lift", "T/lap", "T/carried")
        coefficients = dict(zip(names, (1.0, 50.0, 1.0, 1.0), strict=True))
        model = cf.Model(system, coefficients, experiment)
        found.append((model.factual.states[0].copy(), model.deletions(["v/lift", "T/carried"])))
        if forms:
            statuses = {n.term: n.status for n in cf.constraint_nulls(model, trajectory=False)}
            assert "constraint_null" not in statuses.values()
    assert np.allclose(found[0][0], found[1][0], atol=1e-10)
    for name in ("v/lift", "T/carried"):
        assert found[0][1][name].score == pytest.approx(found[1][1][name].score, rel=1e-6)


def test_a_form_sees_time_and_functions_of_the_mesh():
    domain = unit("triangle", 4)
    bump = fem.Function(fem.functionspace(domain.mesh, ("Lagrange", 1)))
    bump.interpolate(lambda p: p[0])
    form = cf.Form(lambda t, v, dx: t * bump * v * dx, fields=(t,))
    found = []
    for term in (form, t * x):
        experiment = cf.Experiment(
            mesh=domain,
            elements={u: ("Lagrange", 1)},
            initial={u: 0},
            boundary=[cf.Dirichlet(u, 0)],
            time=cf.Window(0, 1, steps=4),
        )
        library = cf.Library(anchor=dt(u), terms={"lap": lap(u), "source": term})
        model = cf.Model(library, {"lap": 0.1, "source": 1.0}, experiment)
        found.append(model.factual.states[-1].copy())
        assert bool(model.discretisation.captured) == (term is form)
    assert np.allclose(*found, atol=1e-12)


def test_certifiers_and_rows_say_what_they_skip():
    model = heat({"form": DIFFUSION, "u": u}, {"form": 0.3, "u": -0.5})
    certificate = cf.certify_deletion(model, "u")
    assert not certificate
    assert "form is given as a UFL form" in str(certificate)
    with pytest.raises(cf.InputError, match="given as a UFL form"):
        cf.Design.from_fields(model.library, [model.factual], "weak")
    deletion = model.deletions(["u", "form"])
    assert {d.status for d in deletion.values()} == {"solved"}
    with pytest.raises(cf.InputError, match="given as a UFL form"):
        model.solve(cf.delete("form", on="left"))
    with pytest.raises(NoFormula, match="has no formula"):
        cf.component(DIFFUSION.term(v), 0)


def test_a_study_with_a_form_decides_and_says_what_it_skips(tmp_path):
    experiment = cf.Experiment(
        mesh=cf.mesh.square(MPI.COMM_SELF, 0.25),
        elements={u: ("Lagrange", 1)},
        initial={u: 1 + x},
        boundary=[cf.Natural(u, 1 - u)],
        time=cf.Window(0, 0.5, steps=4),
    )
    library = cf.Library(anchor=dt(u), terms={"form": NONLINEAR, "decay": -u})

    def study(form):
        return cf.Study(
            cf.Library(anchor=dt(u), terms={"form": form, "decay": -u}),
            experiment,
            coefficients={"form": 0.2, "decay": 1.0},
            certification=cf.Certification(epsilon=1e-2),
        )

    report = study(NONLINEAR).run(out=tmp_path / "run")
    assert report.terms["decay"].decision == "relevant"
    plain = json.loads((tmp_path / "run" / "report.json").read_text())
    assert "form: given as UFL forms" in str(plain)
    assert library["form"].form.digest in str(plain)
    again = study(NONLINEAR).run(out=tmp_path / "run", resume=True)
    assert again.terms["form"].deletion == report.terms["form"].deletion
    other = cf.Form(lambda u, v, dx: -(1 + u**4) * ufl.inner(ufl.grad(u), ufl.grad(v)) * dx)
    with pytest.raises(cf.InputError):
        study(other).run(out=tmp_path / "run", resume=True)
    axis = np.linspace(0, 1, 9)
    data = cf.Dataset({x: axis, y: axis, t: axis}, {u: np.ones((9, 9, 9))})
    with pytest.raises(cf.InputError, match="has no regression rows"):
        cf.Study(library, experiment, data=data)


BAD = {
    "no function": (lambda: cf.Form(3), "takes a function"),
    "no dx": (lambda: cf.Form(lambda u, v: u * v), "the test function and dx"),
    "two fields": (lambda: cf.Form(lambda u, w, v, dx: u * w * v * dx), "name several fields"),
    "a factor": (lambda: 2 * DIFFUSION, "stands alone"),
    "a part": (lambda: cf.on("left", DIFFUSION), "stands alone"),
    "an anchor": (lambda: cf.Library(anchor=DIFFUSION, terms={"u": u}), "stands alone"),
    "which field": (lambda: cf.Library(terms={"a": DIFFUSION}), "not clear"),
    "not linear": (
        lambda: heat(
            {"a": cf.Form(lambda u, v, dx: u**2 * v * dx, linear=True), "lap": lap(u)}, {"a": 1.0}
        ),
        "said to be linear",
    ),
    "an integrand": (
        lambda: heat({"a": cf.Form(lambda u, v, dx: u * v), "lap": lap(u)}, {"a": 1.0}),
        "multiply the integrand by dx",
    ),
    "no test function": (
        lambda: heat({"a": cf.Form(lambda u, v, dx: u * dx), "lap": lap(u)}, {"a": 1.0}),
        "0 arguments",
    ),
    "a mistake": (
        lambda: heat({"a": cf.Form(lambda u, v, dx: u.nothing * dx), "lap": lap(u)}, {"a": 1.0}),
        "cannot be made",
    ),
    "not linear in v": (
        lambda: heat({"a": cf.Form(lambda u, v, dx: v * v * dx), "lap": lap(u)}, {"a": 1.0}),
        "no form of UFL",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_forms_are_one_sentence(kind):
    make, words = BAD[kind]
    with pytest.raises(cf.InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_two_forms_are_told_apart_by_what_they_do():
    same = [cf.Form(lambda u, v, dx: 2 * u * v * dx) for _ in range(2)]
    other = cf.Form(lambda u, v, dx: 3 * u * v * dx)
    assert same[0].term(u) == same[1].term(u) != other.term(u)
    factors = [cf.Form(lambda u, v, dx, k=k: k * u * v * dx) for k in (1, 2)]
    assert len({f.digest for f in factors}) == 2
    assert isinstance(cf.Library(anchor=dt(u), terms={"a": other})["a"], FormTerm)
