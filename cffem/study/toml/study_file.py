# SPDX-License-Identifier: MIT
"""Studies written as TOML: data, never code.

`read_study` turns a file into the same `Study` that a Python script would make. Terms and values
are read by the safe parser, meshes and measurements as data, PETSc options and paths pass the lists
of `cffem.study.toml.allowed`, and everything has a limit. The format is documented in
`docs/study_toml.md`.
"""

from __future__ import annotations

import dataclasses
import inspect
import tomllib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sympy as sp

from cffem.engine.collective import collectively
from cffem.engine.mesh import mesh_shapes
from cffem.engine.mesh.meshes import mesh_path
from cffem.engine.mesh.region import region_mesh
from cffem.screening.screening import Screening
from cffem.study.run.sensors.fit_choice import AUTO, FITS
from cffem.study.study import Study
from cffem.study.toml.allowed import check_petsc_options, inside
from cffem.study.toml.file_text import (
    MOST_DEGREE,
    MOST_STEPS,
    MOST_TERMS,
    check_structure,
    file_text,
    override,
)
from cffem.study.toml.known_tables import KnownTables, declared_known
from cffem.study.toml.named_data import read_dataset
from cffem.study.toml.sensor_keys import read_calibration, read_readings, read_sensors
from cffem.study.toml.study_keys import StudyFileError, Table, is_number
from cffem.symbols.coordinates import SPACE, Parameter
from cffem.symbols.errors import nearest
from cffem.symbols.fields import Field, ScalarField, VectorField
from cffem.symbols.known import Known
from cffem.symbols.operators import dt
from cffem.symbols.parser.parse import parse
from cffem.symbols.problem import conditions as boundary
from cffem.symbols.problem import constraint_classes as constraints
from cffem.symbols.problem import interventions as changes
from cffem.symbols.problem import observables
from cffem.symbols.problem.conditions import (
    Dirichlet,
    Natural,
    Neumann,
    Periodic,
    Robin,
    Tangential,
)
from cffem.symbols.problem.experiment import Experiment
from cffem.symbols.problem.interventions import Intervention
from cffem.symbols.problem.library import Library
from cffem.symbols.problem.norm_names import Norm
from cffem.symbols.problem.system import System
from cffem.symbols.problem.uncertain import MOST_MODES, Uncertain
from cffem.symbols.problem.window import Window
from cffem.symbols.restricted import on
from cffem.verdicts.certification import Certification

if TYPE_CHECKING:
    from mpi4py import MPI

    from cffem.data.dataset import Dataset
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.constraint_classes import Constraint
    from cffem.symbols.problem.observables import Observable


SHAPES = (
    "interval",
    "square",
    "l_shape",
    "disk",
    "annulus",
    "channel",
    "box",
    "box_with_void",
    "torus",
)
CONDITIONS = {kind.__name__: kind for kind in (Dirichlet, Natural, Neumann, Robin, Tangential)}
CONSTRAINTS = ("DivergenceFree", "CurlFree", "ZeroMean", "Constraint")
OBSERVABLES = ("Integral", "Average", "Flux", "Energy", "PointAverage", "Front")
DATA, READINGS, SENSORS = "data", "readings", "sensors"
EXPERIMENT = (
    "mesh",
    "elements",
    "initial",
    "boundary",
    "time",
    "constraint",
    "forcing",
    "stabilisation",
    DATA,
    READINGS,
    SENSORS,
)  # keys of each of the experiments


def read_study(
    path: str | Path, comm: MPI.Comm, overrides: Sequence[str] = (), anywhere: bool = False
) -> Study:
    """The study that a TOML file describes; collective.

    Args:
        path: the file.
        comm: the communicator for meshes.
        overrides: `key=value` pairs that replace or add keys, with dots between tables,
            `experiments.1.time.steps=40` say.
        anywhere: whether the file may name paths outside its own folder.

    Raises:
        StudyFileError: the file does not describe a study; the message names the file, the key and
            what was expected.
    """
    path = Path(path)
    text = comm.bcast(collectively(comm, lambda: file_text(path)))
    check_structure(text, path.name)
    try:
        content = tomllib.loads(text)
    except ValueError as error:  # also numbers with thousands of digits
        # Python's words for a key that is given twice, two anchors say, do not tell that.
        said = str(error).replace(
            "Cannot overwrite a value", "a key is given twice, keep one of them"
        )
        raise StudyFileError(f"{path.name}: this is not TOML: {said}") from None
    except RecursionError:
        raise StudyFileError(f"{path.name}: tables or lists are nested too deeply") from None
    for pair in overrides:
        override(content, pair)
    return StudyReader(content, path, comm, anywhere).study()


class StudyReader:
    """Makes a study from the content of a file.

    Args:
        content: the file as TOML gave it.
        path: the file.
        comm: the communicator for meshes.
        anywhere: whether paths outside the file's folder are allowed.
    """

    def __init__(self, content: dict[str, Any], path: Path, comm: MPI.Comm, anywhere: bool):
        self.table = Table(content, path.name)
        self.folder, self.comm, self.anywhere = path.parent, comm, anywhere
        self.fields: dict[str, Field] = {}
        self.known: dict[str, Known] = {}
        self.parameters: dict[str, float] = {}

    def study(self) -> Study:
        """The whole study."""
        table = self.table
        self._check_places()
        table.text("title", "")
        self._declare(table.table("fields"), table.table("parameters", {}))
        self.known = declared_known(table.table("known", {}))
        library = self._library()
        experiments, data = self._experiments("experiments")
        candidates, _ = self._experiments("candidates", optional=True)
        seed = table.whole("seed", 0)
        options = {
            "coefficients": self._coefficients(),
            "fit": table.choice("fit", FITS, AUTO),
            "calibration": read_calibration(table.table("calibration", {})),
            "refit": table.choice("refit", ("none", "remaining"), "none"),
            "screening": self._screening(table.table("screening", {}), seed),
            "certification": self._certification(table.table("certification", {})),
            "observables": self._observables(table.table("observables", {})),
            "petsc_options": self._petsc(table),
            "candidates": candidates or None,
            "interventions": self._interventions(table.table("interventions", {})),
            "pairs": table.flag("pairs", False),
            "profiles": self._names("profiles"),
            "seed": seed,
            "units": self._units(table.table("units", {})),
        }
        table.done()
        with table.naming():
            return Study(library, experiments, data=data or None, **options)

    # What the equations are
    # ----------------------------------------------------------------------------------------------

    def _declare(self, fields: Table, parameters: Table) -> None:
        for name in fields.entries(most=50):
            value = fields.get(name)
            with fields.naming(name):
                if value == "scalar":
                    self.fields[name] = ScalarField(name)
                elif isinstance(value, dict):
                    entry = fields.table(name)
                    self.fields[name] = VectorField(name, dim=entry.whole("vector", most=3))
                    entry.done()
                else:
                    raise fields.refuse(name, '"scalar" or { vector = 2 } or { vector = 3 }')
        if not self.fields:
            raise StudyFileError(
                f'{fields.file}: fields must declare at least one field, u = "scalar" say'
            )
        for name in parameters.entries(most=100):
            self.parameters[name] = float(parameters.number(name))

    def expression(self, table: Table, name: str, with_fields: bool = True) -> sp.Expr:
        """An expression, or a tuple of them, under a key."""
        value = table.get(name)
        with table.naming(name):
            return self.parsed(value, table, name, with_fields)

    def parsed(self, value: Any, table: Table, name: str, with_fields: bool) -> sp.Expr:
        """A number or text as an expression, a list as a tuple."""
        if isinstance(value, list) and 1 <= len(value) <= 3:
            return tuple(self.parsed(part, table, name, with_fields) for part in value)
        if not isinstance(value, str):
            if not is_number(value):
                raise table.refuse(name, "a number, an expression in quotes, or a list of them")
            return value
        return parse(
            value,
            [*(self.fields.values() if with_fields else ()), *self.known.values()],
            self.parameters if with_fields else (),
        )

    def numbers(self, table: Table, name: str) -> tuple[float, ...]:
        """A list of up to three numbers."""
        value = table.get(name)
        if (
            not isinstance(value, list)
            or not 1 <= len(value) <= 3
            or not all(map(is_number, value))
        ):
            raise table.refuse(name, "a list of one to three numbers")
        return tuple(value)

    def field(self, name: str, table: Table, key: str) -> Field:
        """A declared field."""
        if name not in self.fields:
            raise StudyFileError(
                f"{table.file}: {table.key(key)}: there is no field {name!r}; "
                f"{nearest(name, self.fields)}"
            )
        return self.fields[name]

    def _library(self) -> Library | System:
        table = self.table
        if "libraries" in table and "library" not in table:
            several = table.table("libraries")
            made = {
                name: self._one_library(several.table(name), name)
                for name in several.entries(most=20)
            }
            with several.naming():
                return System(made)
        return self._one_library(table.table("library"), None)

    def _one_library(self, table: Table, unknown: str | None) -> Library:
        anchor = self.expression(table, "anchor") if "anchor" in table else None
        terms = table.table("terms")
        made = {name: self._term(terms, name) for name in terms.entries(most=MOST_TERMS)}
        named = table.text("unknown", unknown)
        field = None if named is None else self.field(named, table, "unknown")
        table.done()
        used = {
            str(symbol)
            for e in (anchor, *made.values())
            if e is not None
            for symbol in getattr(e, "free_symbols", ())
        }
        values = {name: value for name, value in self.parameters.items() if name in used}
        with table.naming():
            return Library(anchor, made, field, parameters=values)

    def _term(self, terms: Table, name: str) -> sp.Expr:
        """A term: an expression, or a table with `term` and the part `on` which it acts."""
        if not isinstance(terms.get(name), dict):
            return self.expression(terms, name)
        entry = terms.table(name)
        expr, where = self.expression(entry, "term"), entry.get("on")
        if not isinstance(where, str | list):
            raise entry.refuse("on", "the name of a part of the mesh, or a list of them")
        entry.done()
        with entry.naming("on"):
            return on(tuple(where) if isinstance(where, list) else where, expr)

    def _coefficients(self) -> dict[str, float | str] | None:
        """Numbers, or where the study has units text with a unit."""
        if "coefficients" not in self.table:
            return None
        table, units = self.table.table("coefficients"), "units" in self.table
        return {
            name: table.text(name)
            if units and isinstance(table.get(name), str)
            else float(table.number(name))
            for name in table.entries(most=MOST_TERMS)
        }

    def _units(self, table: Table) -> dict[str, str] | None:
        return {name: table.text(name) for name in table.entries(most=200)} or None

    # Experiments
    # ----------------------------------------------------------------------------------------------

    def _check_places(self) -> None:
        """A table that is begun after an experiment does not belong to it: TOML takes
        [forcing] for a key of the whole file.
        """
        for name in EXPERIMENT:
            if name in self.table:
                raise StudyFileError(
                    f"{self.table.file}: {name} belongs to an experiment: below [[experiments]] "
                    f"write {name} = … or, as a table, "
                    f"[experiments.{name}]"
                )

    def _experiments(
        self, key: str, optional: bool = False
    ) -> tuple[dict[str, Experiment], dict[str, Any]]:
        experiments, data = {}, {}
        if key not in self.table and not optional:
            raise StudyFileError(
                f"{self.table.file}: the key {key!r} is missing; write [[{key}]] with mesh, "
                "elements and the rest"
            )
        for number, table in enumerate(self.table.tables(key, [], most=50), 1):
            name = table.text("name", f"experiment {number}")
            if name in experiments:
                raise StudyFileError(
                    f"{table.file}: {table.key('name')}: two of the {key} are called {name!r}"
                )
            experiments[name], measured = self._experiment(table)
            if measured is not None:
                data[name] = measured
        return experiments, data

    def _experiment(self, table: Table) -> tuple[Experiment, Dataset | None]:
        measured = None
        if DATA in table:
            measured = read_dataset(
                table.table(DATA), self.fields, self.folder, self.anywhere, self.comm
            )
        readings = None
        if READINGS in table:
            readings = read_readings(table, READINGS, self.folder, self.anywhere, self.comm)
            if measured is not None:
                raise StudyFileError(
                    f"{table.file}: {table.where} has data and readings; give one of them"
                )
        options = {
            "mesh": self._mesh(table, measured),
            "elements": self._elements(table.table("elements")),
            "initial": self._values(table.table("initial", {}), measured, rates=True),
            "boundary": [
                self._condition(entry, measured) for entry in table.tables("boundary", [])
            ],
            "time": self._window(table),
            "constraint": self._constraint(table) if "constraint" in table else None,
            "forcing": self._values(table.table("forcing", {}), None, rates=False),
            "stabilisation": self._stabilisation(table.table("stabilisation", {})),
            "comm": self.comm,
            "known": self._known(table),
            "observation": read_sensors(table, SENSORS, self.fields) if SENSORS in table else None,
            "uncertain": [self._uncertain(entry) for entry in table.tables("uncertain", [])],
        }
        table.done()
        with table.naming():
            return Experiment(**options), measured if readings is None else readings

    def _uncertain(self, table: Table) -> Uncertain:
        """Data that are known up to amplitudes of a basis: how many modes, or named functions."""
        name = table.text("field")
        is_rate = name.startswith("dt(") and name.endswith(")")
        field = self.field(name[3:-1] if is_rate else name, table, "field")
        basis: int | dict[str, object]
        if isinstance(table.get("basis"), dict):
            entry = table.table("basis")
            names = entry.entries(most=MOST_MODES)
            basis = {key: self.expression(entry, key, with_fields=False) for key in names}
        else:
            basis = table.whole("basis", most=MOST_MODES)
        on, deviation = table.text("on", None), table.number("deviation", None)
        table.done()
        with table.naming():
            return Uncertain(dt(field) if is_rate else field, basis, on, deviation)

    def _known(self, table: Table) -> dict[Known, object]:
        reader = KnownTables(self.known, self.folder, self.anywhere, self.comm)
        return reader.values(self.table.table("known", {}), table.table("known", {}))

    def _mesh(self, table: Table, measured: Dataset | None) -> object:
        value = table.get("mesh")
        if isinstance(value, str):
            with table.naming("mesh"):
                return inside(self.folder, value, self.anywhere)
        entry = table.table("mesh")
        with entry.naming():
            if "shipped" in entry:
                shipped = entry.text("shipped")
                entry.done()
                return mesh_path(shipped)
            shape = entry.choice("shape", [*SHAPES, DATA])
            if shape == DATA:
                if measured is None:
                    raise StudyFileError(
                        f"{table.file}: {table.key('mesh')} is to follow the data, but this "
                        "experiment has none"
                    )
                h = float(entry.number("h"))
                entry.done()
                return region_mesh(self.comm, measured, h)
            make = getattr(mesh_shapes, shape)
            keys = [name for name in inspect.signature(make).parameters if name != "comm"]
            numbers = {
                name: entry.text(name) if name == "cells" else entry.number(name)
                for name in keys
                if name in entry
            }
            entry.number("h")
            entry.done()
            return make(self.comm, **numbers)

    def _elements(self, table: Table) -> dict[Field, object]:
        return {
            self.field(name, table, name): self._element(table, name)
            for name in table.entries(most=50)
        }

    def _stabilisation(self, table: Table) -> dict[Field, str]:
        return {self.field(n, table, n): str(table.get(n)) for n in table.entries(most=50)}

    def _element(self, table: Table, name: str) -> tuple[str, int]:
        value = table.get(name)
        good = (
            isinstance(value, list)
            and len(value) == 2
            and isinstance(value[0], str)
            and isinstance(value[1], int)
        )
        if not good or isinstance(value[1], bool) or not 0 <= value[1] <= MOST_DEGREE:
            raise table.refuse(
                name, f'a family and a degree up to {MOST_DEGREE}, ["Lagrange", 2] say'
            )
        return value[0], value[1]

    def _values(self, table: Table, measured: Dataset | None, rates: bool) -> dict[sp.Expr, object]:
        """Initial values or forcing; rates are written `"dt(u)"`."""
        found: dict[sp.Expr, object] = {}
        for name in table.entries(most=50):
            is_rate = rates and name.startswith("dt(") and name.endswith(")")
            field = self.field(name[3:-1] if is_rate else name, table, name)
            found[dt(field) if is_rate else field] = self._value(table, name, measured)
        return found

    def _value(self, table: Table, name: str, measured: Dataset | None) -> object:
        if table.get(name) == DATA:
            if measured is None:
                raise StudyFileError(
                    f"{table.file}: {table.key(name)} is to come from data, but this experiment "
                    "has none"
                )
            return measured
        return self.expression(table, name, with_fields=False)

    def _law(self, table: Table, name: str) -> sp.Expr:
        """A value that may contain fields, with the numbers of its parameters."""
        found, numbers = (
            self.expression(table, name),
            {Parameter(p): value for p, value in self.parameters.items()},
        )
        parts = found if isinstance(found, tuple) else (found,)
        done = tuple(p.xreplace(numbers) if isinstance(p, sp.Basic) else p for p in parts)
        return done if isinstance(found, tuple) else done[0]

    def _condition(self, table: Table, measured: Dataset | None) -> Any:
        kind = table.choice("type", [*CONDITIONS, "Periodic"])
        if kind == "Periodic":
            options: dict[str, Any] = {"on": table.text("on"), "to": table.text("to")}
            table.done()
            with table.naming():
                return Periodic(**options)
        name, bracket, index = table.text("field").partition("[")
        # A second derivative, as in field = "lap(u)", where a term of higher order asks for it.
        derived = "(" in name
        target: Any = (
            self.expression(table, "field") if derived else self.field(name, table, "field")
        )
        law = kind == "Natural" and table.get("value", 0) != DATA
        read = self._law if law else partial(self._value, measured=measured)
        value = read(table, "value") if "value" in table else 0
        on = table.get("on", "all")
        more = (
            {"coefficient": self.expression(table, "coefficient", False)}
            if kind == "Robin" and "coefficient" in table
            else {}
        )
        if kind == "Dirichlet" and "balance" in table:
            more["balance"] = table.flag("balance")
        table.done()
        with table.naming():
            if bracket and not derived:
                target = target[int(index.rstrip("]"))]
            parts = tuple(on) if isinstance(on, list) else on
            made: boundary.BoundaryCondition = CONDITIONS[kind](target, value, parts, **more)
            return made

    def _window(self, table: Table) -> Window | None:
        if "time" not in table:
            return None
        entry = table.table("time")
        scheme = entry.text("scheme", None)
        tolerance = self._tolerance(entry)
        if "levels" in entry:
            levels = entry.get("levels")
            if not isinstance(levels, list) or not 2 <= len(levels) <= MOST_STEPS + 1:
                raise entry.refuse("levels", "a list of the times at which steps end")
            entry.done()
            with entry.naming():
                return Window.through(levels, scheme, tolerance)
        start, end = entry.number("start", 0), entry.number("end")
        steps = entry.whole("steps", most=MOST_STEPS)
        entry.done()
        with entry.naming():
            return Window(start, end, steps, scheme, tolerance=tolerance)

    def _tolerance(self, entry: Table) -> float | str | None:
        """The tolerance of adaptive steps, a number or "auto"."""
        given = entry.get("tolerance", None)
        if given is None or given == "auto":
            return given
        number: float = entry.number("tolerance")
        return number

    def _constraint(self, parent: Table) -> Constraint:
        table = parent.table("constraint")
        kind = table.choice("type", CONSTRAINTS)
        options: dict[str, Any] = {}
        if kind == "Constraint":
            options["expr"] = self.expression(table, "expr")
        else:
            options["field"] = self.field(table.text("field"), table, "field")
        if kind != "ZeroMean" and "multiplier" in table:
            entry = table.table("multiplier")
            options["multiplier"] = {
                self.field(n, entry, n): self._element(entry, n) for n in entry.entries(most=1)
            }
        if kind == "DivergenceFree" and "weight" in table:
            options["weight"] = self.expression(table, "weight", with_fields=False)
        table.done()
        with table.naming():
            return getattr(constraints, kind)(**options)

    # What is asked
    # ----------------------------------------------------------------------------------------------

    def _certification(self, table: Table) -> Certification:
        """Plain numbers, flags and words, checked against the defaults, and a norm."""
        options = {
            f.name: self._like(table, f.name, f.type, f.default)
            for f in dataclasses.fields(Certification)
            if f.name in table and f.name != "norm"
        }
        if "norm" in table:
            options["norm"] = self._norm(table)
        table.done()
        with table.naming():
            return Certification(**options)

    def _norm(self, table: Table) -> str:
        """The name of a norm, or a table with weights, kind and subdomain."""
        if not isinstance(table.get("norm"), Mapping):
            return str(table.text("norm"))
        entry = table.table("norm")
        options: dict[str, Any] = {}
        for word, read in (("weights", Table.number), ("kind", Table.text)):
            if word in entry and isinstance(entry.get(word), Mapping):
                each = entry.table(word)
                options[word] = {
                    self.field(name, each, name): read(each, name) for name in each.entries()
                }
            elif word in entry:
                options[word] = entry.text(word)
        if "on" in entry:
            options["on"] = entry.text("on")
        entry.done()
        with entry.naming():
            return Norm(**options)

    def _like(self, table: Table, name: str, annotation: Any, default: Any) -> Any:
        read = (
            table.flag
            if str(annotation).startswith("bool")  # a flag may have no default
            else table.text
            if isinstance(default, str)
            else table.number
        )
        return read(name)

    def _screening(self, table: Table, seed: int) -> Screening:
        parameters = inspect.signature(Screening).parameters
        plain = (name for name in parameters if name in table and name not in ("bounds", "largest"))
        options = {
            name: self._like(table, name, parameters[name].annotation, parameters[name].default)
            for name in plain
        }
        if "largest" in table:
            options["largest"] = table.whole("largest")
        if "bounds" in table:
            options["bounds"] = self._bounds(table.table("bounds"))
        table.done()
        with table.naming():
            return Screening(**{"random_state": seed, **options})

    def _bounds(self, table: Table) -> dict[str, object]:
        """Known coefficients and bounds of others: a number, or a table with `low`, `high` or
        both.
        """
        found: dict[str, object] = {}
        for name in table.entries():
            if isinstance(table.get(name), Mapping):
                ends = table.table(name)
                found[name] = (ends.number("low", None), ends.number("high", None))
                ends.done()
            else:
                found[name] = table.number(name)
        return found

    def _observables(self, table: Table) -> dict[str, tuple[Observable, float]]:
        return {name: self._observable(table.table(name)) for name in table.entries(most=50)}

    def _observable(self, table: Table) -> tuple[Observable, float]:
        kind = table.choice("type", OBSERVABLES)
        epsilon = table.number("epsilon")
        options: dict[str, Any] = {"expr": self.expression(table, "expr")}
        if "on" in table:
            options["on"] = table.text("on")
        if "at" in table:
            options["at"] = table.get("at")
        if kind == "PointAverage":
            options |= {"point": self.numbers(table, "point"), "radius": table.number("radius")}
        if kind == "Front":
            options |= {name: table.number(name) for name in ("level", "width") if name in table}
            options |= {"speed": table.flag("speed")} if "speed" in table else {}
            options |= (
                {"along": dict(zip("xyz", SPACE, strict=True))[table.choice("along", "xyz")]}
                if "along" in table
                else {}
            )
        table.done()
        with table.naming():
            return getattr(observables, kind)(**options), epsilon

    def _names(self, key: str) -> list[str]:
        """A list of names of terms."""
        given = self.table.get(key, [])
        if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
            raise self.table.refuse(key, "a list of names of terms")
        return given

    def _interventions(self, table: Table) -> dict[str, Intervention]:
        return {name: self._intervention(table.table(name)) for name in table.entries(most=200)}

    def _intervention(self, table: Table) -> Intervention:
        """What a table changes, all of it together."""
        made: list[Intervention] = []
        with table.naming():
            if "delete" in table:
                names = table.get("delete")
                names = [names] if isinstance(names, str) else names
                if not isinstance(names, list):
                    raise table.refuse("delete", "the name of a term or a list of them")
                kept = table.choice("conditions", changes.CONDITIONS, changes.CARRIED)
                where = table.get("on", None)
                when = self.numbers(table, "during") if "during" in table else None
                made.append(changes.delete(*names, conditions=kept, on=where, during=when))  # type: ignore[arg-type]
            for word, change in (("scale", changes.scale), ("set", changes.set)):
                entry = table.table(word, {})
                made += [change(name, float(entry.number(name))) for name in entry.entries()]
            for word, replaced in (("force", changes.force), ("start", changes.start)):
                if word in table:
                    values = self._values(table.table(word), None, rates=word == "start")
                    made.append(replaced(values))
            if "boundary" in table:
                parts = [self._condition(entry, None) for entry in table.tables("boundary")]
                made.append(changes.boundary(*parts))
            if table.flag("release", False):
                made.append(changes.release())
            table.done()
            if not made:
                raise StudyFileError(
                    f"{table.file}: {table.where} changes nothing; it may hold delete, scale, set, "
                    "force, start, boundary and release"
                )
            return changes.joint(made)

    def _petsc(self, table: Table) -> PetscOptions:
        entry = table.table("petsc_options", {})
        with entry.naming():
            return check_petsc_options({name: entry.get(name) for name in entry.entries(most=100)})
