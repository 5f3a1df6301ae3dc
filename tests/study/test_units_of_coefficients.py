"""Units are optional; where they are given, terms and coefficients are checked and converted."""

from __future__ import annotations

import pytest

pytest.importorskip("dolfinx")

import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import div, dt, grad, lap, x
from cffem.study.toml.study_file import read_study
from cffem.symbols.units.term_units import Units
from cffem.symbols.units.unit import UnitError, read_quantity, read_unit

T, v = cf.ScalarField("T"), cf.VectorField("v", dim=2)
k, L = cf.Known("k"), cf.Parameter("L")
METRES = {"x": "m", "t": "s", "T": "K"}


def test_units_multiply_as_they_do_on_paper():
    for text, other in (
        ("W/(m^2*K)", "kg*s^-3*K^-1"),
        ("Pa", "N/m^2"),
        ("V/m", "kg m s^-3 A^-1"),
        ("L", "m^3"),
        ("rad/s", "Hz"),
    ):
        assert read_unit(text).alike(read_unit(other))
    assert read_unit("km/h").factor == pytest.approx(1000 / 3600)
    assert read_unit("mm^2").factor == pytest.approx(1e-6)
    assert read_unit("g").factor == pytest.approx(1e-3)
    assert str(read_unit("m") * read_unit("s") / read_unit("m")) == "s"
    assert read_unit("T").alike(read_unit("Wb/m^2"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("meter", "not known"),
        ("", "a unit is a text"),
        ("m^", "exponent"),
        ("m^x", "exponent"),
        ("(m", "not closed"),
        ("m)", "nothing may follow"),
        ("m^^2", "exponent"),
        ("degC", "use K"),
        ("m;s", "not read"),
        ("m" * 500, "a unit is a text"),
        ("__import__('os')", "not read"),
    ],
)
def test_what_is_no_unit_is_refused_in_words(text, words):
    with pytest.raises(UnitError, match=words):
        read_unit(text)


def test_quantities_have_a_number_and_a_unit():
    assert read_quantity("-1.5e-3 m/s")[0] == -1.5e-3
    for bad in ("m/s", "5", "5m/s", "1e999 m", "nan m", "5 "):
        with pytest.raises(UnitError):
            read_quantity(bad)


def library(**more):
    return cf.Library(anchor=dt(T), terms={"lap": lap(T), "drift": -T.diff(x), **more})


def test_units_of_coefficients_follow_from_those_of_fields():
    terms = {"source": sp.Integer(1), "material": div(k * grad(T)), "quartic": T**4}
    units = Units({"x": "km", "t": "d", "T": "K", "k": "m^2/s"}, library(**terms))
    told = {name: str(unit) for name, unit in units.coefficients.items()}
    assert told == {
        "lap": "km^2/d",
        "drift": "km/d",
        "source": "K/d",
        "material": "km^2*s/(d*m^2)",
        "quartic": "1/(K^3*d)",
    }
    assert units.number("lap", "1000 m^2/s") == pytest.approx(1000 * 86400 / 1e6)
    assert units.number("drift", "0.05 m/s") == pytest.approx(0.05 * 86400 / 1e3)
    assert units.number("lap", 3.0) == 3.0


def test_vectors_and_systems_have_units_too():
    momentum = cf.Library(anchor=dt(v), terms={"nu": lap(v), "convection": -cf.dot(v, grad(v))})
    units = Units({"x": "m", "t": "s", "v": "m/s"}, momentum)
    assert str(units.coefficients["nu"]) == "m^2/s"
    assert units.coefficients["convection"].same(read_unit("1"))
    heat = cf.Library(anchor=dt(T), terms={"lap": lap(T), "carried": -cf.dot(v, grad(T))})
    system = cf.System({v: momentum, T: heat})
    assert str(Units({**METRES, "v": "m/s"}, system).coefficients["T/lap"]) == "m^2/s"


def test_steady_equations_take_their_unit_from_the_first_coefficient():
    steady = cf.Library(terms={"lap": lap(T), "loss": -T, "heat": sp.Integer(1)}, unknown=T)
    units = Units({"x": "m", "T": "K"}, steady)
    assert units.number("lap", "2 W/(m*K)") == 2.0
    assert units.number("loss", "3 kW/(m^3*K)") == pytest.approx(3000.0)
    with pytest.raises(UnitError, match=r"'heat'.*W/m\^3.*measures something else"):
        units.number("heat", "5 W")


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"both": T - T**3}, "the term 'both'.*cannot be added"),
        ({"wave": sp.sin(x) * T}, "function of m.*divide by a parameter"),
        ({"fire": sp.exp(T)}, "function of K"),
        ({"odd": T**sp.pi}, "no fraction"),
    ],
)
def test_terms_that_hide_a_constant_with_a_unit_are_refused(terms, words):
    with pytest.raises(UnitError, match=words):
        Units(METRES, library(**terms))


def test_parameters_carry_what_was_hidden():
    scaled = cf.Library(anchor=dt(T), terms={"wave": sp.sin(x / L) * T}, parameters={L: 2.0})
    assert str(Units({**METRES, "L": "m"}, scaled).coefficients["wave"]) == "1/s"
    with pytest.raises(UnitError, match="function of m/km"):
        Units({**METRES, "L": "km"}, scaled)


TOML = """
[fields]
T = "scalar"
[units]
x = "km"
t = "d"
T = "K"
[library]
anchor = "dt(T)"
[library.terms]
cooling = "-T"
lap = "lap(T)"
[coefficients]
cooling = "0.25 1/d"
lap = "{lap}"
[[experiments]]
mesh = {{ shape = "interval", h = 0.2 }}
elements = {{ T = ["Lagrange", 1] }}
initial = {{ T = "sin(pi*x)" }}
boundary = [{{ type = "Dirichlet", field = "T", value = 0, on = "all" }}]
time = {{ end = 1.0, steps = 4 }}
"""


def test_a_file_with_units_is_the_study_in_numbers_and_its_report_names_them(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(TOML.format(lap="1 m^2/s"))
    study = read_study(path, MPI.COMM_WORLD)
    assert study.coefficients == pytest.approx({"cooling": 0.25, "lap": 0.0864})
    report = study.run(tmp_path / "out")
    told = report.sections["scope"]["units"]
    assert told["coefficients"] == {"cooling": "1/d", "lap": "km^2/d"}
    assert "0.0864 km^2/d" in (tmp_path / "out" / "report.html").read_text()
    plain = path.read_text().split("[units]")
    without = plain[0] + plain[1][plain[1].index("[library]") :]
    path.write_text(without.replace('"0.25 1/d"', "0.25").replace('"1 m^2/s"', "0.0864"))
    same = read_study(path, MPI.COMM_WORLD).run()
    assert same.terms["lap"].deletion == pytest.approx(report.terms["lap"].deletion, rel=1e-12)


@pytest.mark.parametrize(
    ("lap_value", "words"),
    [
        ("1 m/s", "measures something else"),
        ("1 m^2", "'lap'.*measures something else"),
        ("fast", "not a number with a unit"),
        ("1 furlong", "not known"),
    ],
)
def test_wrong_units_in_a_file_are_one_sentence(tmp_path, lap_value, words):
    path = tmp_path / "study.toml"
    path.write_text(TOML.format(lap=lap_value))
    with pytest.raises(cf.InputError, match=words):
        read_study(path, MPI.COMM_WORLD)


def test_units_without_a_table_and_names_that_are_not_there_are_told(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(TOML.format(lap="1 m^2/s").replace('T = "K"\n[lib', 'Q = "K"\n[lib'))
    with pytest.raises(cf.InputError, match="'Q' is neither"):
        read_study(path, MPI.COMM_WORLD)
    start, rest = TOML.format(lap="1 m^2/s").split("[units]")
    path.write_text(start + rest[rest.index("[library]") :])
    with pytest.raises(cf.InputError, match="number"):
        read_study(path, MPI.COMM_WORLD)
