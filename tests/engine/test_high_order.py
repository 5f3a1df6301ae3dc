"""Terms of third and higher order, written plainly: split into auxiliary fields that nobody
sees.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("dolfinx")

import basix.ufl
import sympy as sp
import ufl
from dolfinx import fem, mesh
from engine_support import assert_order, error, unit
from mpi4py import MPI
from plain_dolfinx import solved_by_dolfinx

import cffem as cf
from cffem import dt, lap, x, y

u = cf.ScalarField("u")
PERIODIC = [cf.Periodic("left", "right")]


def on_interval(
    terms,
    coefficients,
    initial,
    cells,
    *,
    length=1.0,
    degree=2,
    end=1.0,
    steps=40,
    comm=MPI.COMM_SELF,
    **others,
):
    """A model on a periodic interval."""
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(comm, length / cells, length=length),
        elements={u: ("Lagrange", degree)},
        boundary=others.pop("boundary", PERIODIC),
        initial={u: initial},
        time=cf.Window(0, end, steps, **others),
    )
    return cf.Model(cf.Library(dt(u), terms), coefficients, experiment)


def l2_distance(solution, exact):
    """‖u_h − exact‖ at the end; `exact` takes the UFL coordinate."""
    found = solution.function(u)
    place = ufl.SpatialCoordinate(found.function_space.mesh)
    squared = (found - exact(place[0])) ** 2 * ufl.dx(metadata={"quadrature_degree": 10})
    return float(np.sqrt(fem.assemble_scalar(fem.form(squared))))


# Korteweg–de Vries
# --------------------------------------------------------------------------------------------------

SPEED, LENGTH = 2.0, 30.0
KDV = {"uux": -6 * u * u.diff(x), "uxxx": -u.diff(x, 3)}


def soliton(s):
    return SPEED / 2 * sp.sech(sp.sqrt(SPEED) / 2 * s) ** 2


def kdv(cells, degree=2, steps=40, comm=MPI.COMM_SELF, other=0):
    start = soliton(x - LENGTH / 3) + other
    return on_interval(
        KDV,
        {"uux": 1, "uxxx": 1},
        start,
        cells,
        length=LENGTH,
        degree=degree,
        steps=steps,
        comm=comm,
    )


@pytest.mark.parametrize("degree", [1, 2])
def test_a_soliton_travels_with_the_order_of_the_element(degree):
    errors = []
    for cells in (60, 120):
        solution = kdv(cells, degree, steps=2 * cells if degree == 2 else cells).solve()
        errors.append(
            l2_distance(
                solution,
                lambda p: SPEED / 2 / ufl.cosh(np.sqrt(SPEED) / 2 * (p - LENGTH / 3 - SPEED)) ** 2,
            )
        )
    assert errors[1] < (2e-2, 6e-4)[degree - 1]
    assert np.log2(errors[0] / errors[1]) > degree + 0.8


def test_the_auxiliary_field_is_invisible():
    model = kdv(60)
    assert [str(f) for f in model.library.unknowns] == ["u"]
    sweep = model.deletions()
    assert set(sweep.deletions) == {"uux", "uxxx"}
    whole, alone = model.factual.norm(), model.factual.function(u)
    assert whole == pytest.approx(
        np.sqrt(2 * np.sqrt(SPEED) ** 3 / 3), rel=1e-3
    )  # ‖u‖ of the soliton, kept for a time of one
    assert alone.function_space.element.basix_element.degree == 2
    assert "u_xx" not in str(model.factual)


def test_deleting_the_highest_term_leaves_the_equation_without_it():
    """Without u_xxx the split model is the plain one."""
    start = sp.sin(2 * sp.pi * x)
    split = on_interval(
        {"ux": -u.diff(x), "uxxx": -u.diff(x, 3)}, {"ux": 1, "uxxx": 1e-3}, start, 20
    )
    plain = on_interval({"ux": -u.diff(x)}, {"ux": 1}, start, 20)
    without = split.solve(cf.delete("uxxx")).function(u).x.array
    assert np.allclose(without, plain.solve().function(u).x.array, atol=1e-11)


def test_solutions_are_the_rows_of_their_own_equation():
    model = kdv(80, steps=60, other=sp.sech(x - 16) ** 2)
    library = cf.Library(dt(u), {**KDV, "ux": u.diff(x)})
    screen = cf.Screening(method="subset").fit(cf.Design.from_fields(library, [model.factual]))
    assert screen.coef_ == pytest.approx([1, 1, 0], abs=1e-4)


def test_derivatives_of_the_split_problem_are_right():
    model = kdv(40, steps=20)
    assert cf.taylor_linearised(model, "uxxx").order == pytest.approx(2, abs=0.1)
    scores = model.observable_scores(cf.Energy(u))
    step = 1e-4
    changed = [model.solve(cf.scale("uxxx", 1 + sign * step)) for sign in (1, -1)]
    values = [model.measurement(cf.Energy(u)).value(solution) for solution in changed]
    assert abs(scores["uxxx"]) == pytest.approx(
        abs(values[0] - values[1]) / (2 * step), rel=1e-4, abs=1e-8
    )


def score_on(comm):
    found = {
        name: deletion.score
        for name, deletion in kdv(48, steps=10, comm=comm).deletions().deletions.items()
    }
    if comm.rank == 0:
        print("scores", found["uux"], found["uxxx"])


def test_ranks_agree(on_ranks):
    alone = [deletion.score for deletion in kdv(48, steps=10).deletions().deletions.values()]
    found = [
        np.array(on_ranks(ranks, score_on).split("scores ")[1].split()[:2], dtype=float)
        for ranks in (2, 3)
    ]
    assert np.allclose(found, alone, rtol=1e-10)


# Kuramoto–Sivashinsky and other linear waves
# --------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [1, 2])
def test_growth_rates_of_kuramoto_and_sivashinsky(mode):
    """A small wave cos kx grows with the rate k² − k⁴."""
    k = 0.4 * mode
    terms = {"uux": -u * u.diff(x), "uxx": -u.diff(x, 2), "uxxxx": -u.diff(x, 4)}
    check_growth(terms, dict.fromkeys(terms, 1), k, float(2 * np.pi / 0.4), k**2 - k**4)


def check_growth(terms, coefficients, k, length, exact, size=1e-6, end=2.0):
    """A small wave cos kx grows with a rate."""
    rates = []
    for cells in (10, 20):
        model = on_interval(
            terms, coefficients, size * sp.cos(k * x), cells, length=length, end=end, steps=80
        )
        rates.append(np.log(amplitude(model.solve().function(u), k, length) / size) / end)
    errors = np.abs(np.array(rates) - exact)
    assert errors[1] < 1e-3 * k**2
    assert errors[1] < max(errors[0] / 4, 1e-5)  # what time steps and Newton leave


def amplitude(wave, k, length):
    """That of cos kx in a function."""
    place = ufl.SpatialCoordinate(wave.function_space.mesh)
    return fem.assemble_scalar(fem.form(wave * ufl.cos(k * place[0]) * ufl.dx)) * 2 / length


def spectral(length, start, end, rate, nonlinear, points=128, steps=4000):
    """A Fourier solution by an integrating factor and the classical fourth-order Runge–Kutta
    method.

    Args:
        length: of the periodic interval.
        start: the initial values as a function of the place.
        end: the time.
        rate: that of a wave, as a function of k.
        nonlinear: the other terms, of coefficients, wave numbers and what makes values of these.
        points: of the grid.
        steps: in time.
    """
    place = np.arange(points) * length / points
    k = 2 * np.pi * np.fft.rfftfreq(points, length / points)
    step = end / steps
    half = np.exp(rate(k) * step / 2)
    kept = k < 2 / 3 * k.max()

    def nonlinear_part(c):
        return kept * nonlinear(np.fft.irfft(c, points), k)

    c = np.fft.rfft(start(place))
    for _ in range(steps):
        a = step * nonlinear_part(c)
        b = step * nonlinear_part(half * (c + a / 2))
        d = step * nonlinear_part(half * c + b / 2)
        e = step * nonlinear_part(half**2 * c + half * d)
        c = half**2 * c + (half**2 * a + 2 * half * (b + d) + e) / 6
    return place, np.fft.irfft(c, points)


def test_kuramoto_and_sivashinsky_against_a_spectral_solution():
    length = float(2 * np.pi / 0.5)
    terms = {"uux": -u * u.diff(x), "uxx": -lap(u), "uxxxx": -lap(lap(u))}
    start = sp.cos(x / 2) + 0.3 * sp.sin(x)
    truth = spectral(
        length,
        lambda p: np.cos(p / 2) + 0.3 * np.sin(p),
        2.0,
        lambda k: k**2 - k**4,
        lambda values, k: -0.5j * k * np.fft.rfft(values**2),
    )
    check_spectral(terms, dict.fromkeys(terms, 1), start, length, truth)


def check_spectral(terms, coefficients, start, length, truth, end=2.0):
    """The solution tends to a spectral one, with the order of the element or nearly."""
    place, exact = truth
    errors = []
    for cells in (16, 32):
        model = on_interval(
            terms, coefficients, start, cells, length=length, end=end, steps=8 * cells
        )
        found = model.solve().function(u)
        nodes = found.function_space.tabulate_dof_coordinates()[:, 0]
        reference = np.interp(nodes, np.append(place, length), np.append(exact, exact[0]))
        errors.append(np.abs(found.x.array - reference).max())
    assert errors[1] < 3e-3
    assert errors[1] < errors[0] / 3.5


# Swift–Hohenberg: u_t = r u − (1 + ∂²)² u − u³
# --------------------------------------------------------------------------------------------------

DRIVE = 0.3
ROLLS = {"u": u, "lap": lap(u), "bending": -lap(lap(u)), "cubic": -(u**3)}
RATES = {"u": DRIVE - 1, "lap": -2, "bending": 1, "cubic": 1}


@pytest.mark.parametrize("k", [0.5, 1.0])
def test_growth_rates_of_swift_and_hohenberg(k):
    """A small wave cos kx grows with the rate r − (1 − k²)²; at the onset k = 1 with r itself."""
    check_growth(ROLLS, RATES, k, float(4 * np.pi), DRIVE - (1 - k**2) ** 2)


def test_swift_and_hohenberg_against_a_spectral_solution():
    length = float(4 * np.pi)
    truth = spectral(
        length,
        lambda p: 0.5 * np.cos(p) + 0.2 * np.sin(p / 2),
        2.0,
        lambda k: DRIVE - (1 - k**2) ** 2,
        lambda values, k: -np.fft.rfft(values**3),
    )
    start = sp.Rational(1, 2) * sp.cos(x) + sp.Rational(1, 5) * sp.sin(x / 2)
    check_spectral(ROLLS, RATES, start, length, truth)


def test_rolls_of_swift_and_hohenberg_saturate():
    """At u = A cos x + …, with A² = 4r/3 up to the third harmonic, which takes 4e-4 of it."""
    length = float(2 * np.pi)
    model = on_interval(ROLLS, RATES, sp.cos(x) / 2, 16, length=length, end=20, steps=60)
    found = amplitude(model.solve().function(u), 1.0, length)
    assert found == pytest.approx(np.sqrt(4 * DRIVE / 3), rel=2e-3)


@pytest.mark.parametrize(
    ("term", "exact"), [(u.diff(x, 5), 1.0), (lap(lap(lap(u))), np.exp(-1)), (lap(u).diff(x), 1.0)]
)
def test_fifth_sixth_and_commuted_derivatives(term, exact):
    model = on_interval({"a": term}, {"a": 1}, sp.sin(x), 24, length=float(2 * np.pi), steps=60)
    assert model.solve().function(u).x.array.max() == pytest.approx(exact, rel=3e-3)


# Plates
# --------------------------------------------------------------------------------------------------

SUPPORTED = [cf.Dirichlet(u, 0), cf.Dirichlet(lap(u), 0)]
CLAMPED = [cf.Dirichlet(u, 0), cf.Neumann(u, 0)]


def plate(conditions, cells=8, degree=2, forcing=1, term=None):
    experiment = cf.Experiment(
        mesh=unit("triangle", cells),
        elements={u: ("Lagrange", degree)},
        boundary=conditions,
        forcing={u: forcing},
    )
    library = cf.Library(None, {"bending": -lap(lap(u)) if term is None else term}, unknown=u)
    return cf.Model(library, {"bending": 1}, experiment)


@pytest.mark.parametrize(
    ("conditions", "deflection"), [(SUPPORTED, 0.00406235), (CLAMPED, 0.00126532)]
)
def test_plates_under_uniform_load_have_the_published_deflection(conditions, deflection):
    """Timoshenko's plate: w_max D/(q a⁴)."""
    found = plate(conditions, 16).solve().function(u)
    assert found.x.array.max() == pytest.approx(deflection, rel=1e-3)


def test_a_supported_plate_converges_with_the_order_of_the_element():
    errors, exact = [], sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
    for cells in (4, 8):
        found = plate(SUPPORTED, cells, forcing=4 * sp.pi**4 * exact).solve().function(u)
        place = ufl.SpatialCoordinate(found.function_space.mesh)
        truth = ufl.sin(ufl.pi * place[0]) * ufl.sin(ufl.pi * place[1])
        squared = (found - truth) ** 2 * ufl.dx(metadata={"quadrature_degree": 8})
        errors.append(float(np.sqrt(fem.assemble_scalar(fem.form(squared)))))
    assert_order(errors, 3)


def test_the_clamped_plate_is_that_of_plain_dolfinx():
    domain = mesh.create_unit_square(MPI.COMM_SELF, 8, 8)
    element = basix.ufl.element("Lagrange", "triangle", 2)
    space = fem.functionspace(domain, basix.ufl.mixed_element([element, element]))
    (a, w), (p, q) = ufl.TrialFunctions(space), ufl.TestFunctions(space)
    form = (ufl.dot(ufl.grad(w), ufl.grad(p)) + w * q + ufl.dot(ufl.grad(a), ufl.grad(q))) * ufl.dx
    domain.topology.create_connectivity(1, 2)
    sub, _ = space.sub(0).collapse()
    dofs = fem.locate_dofs_topological(
        (space.sub(0), sub), 1, mesh.exterior_facet_indices(domain.topology)
    )
    condition = fem.dirichletbc(fem.Function(sub), dofs, space.sub(0))
    by_hand = solved_by_dolfinx(form, -1.0 * p * ufl.dx, [condition]).sub(0).collapse().x.array
    assert plate(CLAMPED, 8).solve().function(u).x.array.max() == pytest.approx(
        by_hand.max(), rel=1e-9
    )


def test_a_part_without_a_second_condition_is_asked_for():
    with pytest.raises(cf.InputError, match=r"declare Dirichlet\(lap\(u\), …\), Neumann\(u, 0\)"):
        plate([cf.Dirichlet(u, 0)]).solve()
    with pytest.raises(cf.InputError, match=r"declare Dirichlet\(u, …\), Neumann\(lap\(u\), 0\)"):
        plate([cf.Neumann(u, 0)]).solve()
    with pytest.raises(cf.InputError, match="two conditions are enough"):
        plate([*CLAMPED, cf.Dirichlet(lap(u), 0)])
    with pytest.raises(cf.InputError, match=r"take conditions, here: lap\(u\)"):
        plate([*CLAMPED, cf.Dirichlet(u.diff(x, 2), 0)])
    with pytest.raises(cf.InputError, match="here: none"):
        plate([cf.Dirichlet(u, 0), cf.Dirichlet(lap(u), 0)], term=lap(u))


def test_nothing_flows_out_of_a_closed_box():
    """Cahn–Hilliard keeps its mass; its linear part decays as exact."""
    k, end = sp.pi / 2, 0.05
    terms = {"chemical": lap(u**3 - u), "bending": -lap(lap(u))}
    start = sp.Rational(1, 4) + sp.Float(1e-4) * sp.cos(k * x)
    experiment = cf.Experiment(
        mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1, length=2.0),
        elements={u: ("Lagrange", 2)},
        boundary=[cf.Neumann(u, 0), cf.Neumann(lap(u), 0)],
        initial={u: start},
        time=cf.Window(0, end, 40),
    )
    found = (
        cf.Model(cf.Library(dt(u), terms), {"chemical": 1, "bending": 0.1}, experiment)
        .solve()
        .function(u)
    )
    assert fem.assemble_scalar(fem.form(found * ufl.dx)) == pytest.approx(0.5, abs=1e-10)
    rate = float(-(k**2) * (3 / 16 - 1) - 0.1 * k**4)
    place = ufl.SpatialCoordinate(found.function_space.mesh)
    wave = fem.assemble_scalar(fem.form(found * ufl.cos(float(k) * place[0]) * ufl.dx))
    assert wave == pytest.approx(1e-4 * np.exp(rate * end), rel=1e-3)


def test_bars_are_not_made_by_theorems_of_second_order():
    assert "third or higher order" in cf.certify_solution(plate(SUPPORTED, 4)).reason


def test_elements_without_gradients_are_refused():
    with pytest.raises(cf.InputError, match="need a Lagrange element"):
        cf.Model(
            cf.Library(dt(u), {"a": u.diff(x, 3)}),
            {"a": 1},
            cf.Experiment(
                mesh=unit("interval", 4),
                elements={u: ("DG", 1)},
                boundary=[cf.Dirichlet(u, 0)],
                initial={u: 0},
                time=cf.Window(0, 1, 2),
            ),
        )


# Second derivatives inside nonlinear functions
# --------------------------------------------------------------------------------------------------

WAVY = sp.sin(sp.pi * x) * sp.sin(2 * y + 1)


def fully_nonlinear(cells, degree, term, boundary):
    """0 = Δu + 0.03 T[u] + f with a known solution."""
    exact = (
        WAVY.diff(x, 2)
        + WAVY.diff(y, 2)
        + 0.03 * term(WAVY.diff(x, 2), WAVY.diff(y, 2), WAVY.diff(x, y))
    )
    experiment = cf.Experiment(
        mesh=unit("triangle", cells),
        elements={u: ("Lagrange", degree)},
        boundary=boundary,
        forcing={u: -exact},
    )
    written = term(u.diff(x, 2), u.diff(y, 2), u.diff(x, y))
    library = cf.Library(None, {"lap": lap(u), "bent": written}, unknown=u)
    return cf.Model(library, {"lap": 1, "bent": 0.03}, experiment)


@pytest.mark.parametrize(
    ("term", "degree", "order"),
    [
        (lambda a, b, c: (a + b) ** 2, 1, 1.3),
        (lambda a, b, c: (a + b) ** 2, 2, 2.9),
        (lambda a, b, c: a * b - c**2, 2, 2.0),  # the determinant of the Hessian
    ],
)
def test_squares_of_second_derivatives_converge(term, degree, order):
    boundary = [
        cf.Dirichlet(u, WAVY, on="left"),
        cf.Dirichlet(u, WAVY, on="right"),
        cf.Dirichlet(u, WAVY, on="bottom"),
        cf.Neumann(u, WAVY.diff(y), on="top"),
    ]
    errors = [
        error(fully_nonlinear(n, degree, term, boundary).solve().function(u), WAVY) for n in (6, 12)
    ]
    assert_order(errors, order)
