# SPDX-License-Identifier: MIT
"""A study: from a library and experiments, with known coefficients or measured data, to a report
with verdicts.

The stations are those of the paper's Algorithm 1: factual fields or data → effective library →
design and diagnostics → screening and refit → deletion sweep → linearised and adjoint scores →
certified verdicts → report; each is a file in `cffem/study/stations`. A station that does not apply
is skipped, and the report says why. A verdict needs an error bar; where there is none the verdict
is `unresolved`, however large the score is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpi4py import MPI

from cffem.engine.assembly.experiment_checks import checked_coefficients
from cffem.engine.calibration.calibration_settings import CalibrationSettings
from cffem.engine.time.adaptive import ADAPTIVE
from cffem.engine.time.in_parts import window_of_spells
from cffem.screening.screening import Screening
from cffem.study.report.report import Report
from cffem.study.run import settings
from cffem.study.run.checkpoint import OutputError
from cffem.study.run.counted import counted_fields
from cffem.study.run.progress import progress_of_script
from cffem.study.run.running import Run
from cffem.study.run.sections.findings import Findings
from cffem.study.run.sensors import calibrating, covariance_spread, next_sensor, observing
from cffem.study.run.sensors.fit_choice import (
    AUTO,
    BOTH,
    CALIBRATION,
    REGRESSION,
    chosen_fit,
    named_measurements,
    readings_of_fields,
)
from cffem.study.run.stations import coefficient_intervals as intervals
from cffem.study.run.stations import (
    constraining,
    deleting,
    detecting,
    fitting,
    identifying,
    misfit,
    profiling,
    proposing,
    reporting,
    scoring,
    solving,
)
from cffem.study.run.stations.intervening import check_interventions, checked_interventions
from cffem.symbols.errors import InputError, nearest
from cffem.symbols.form_terms import forms_among
from cffem.symbols.problem.experiment import Experiment
from cffem.symbols.problem.known_values import for_measured_fields
from cffem.symbols.problem.observables import Observable
from cffem.symbols.problem.window import LARGEST_TOLERANCE
from cffem.symbols.units.term_units import Units
from cffem.verdicts.certification import Certification

if TYPE_CHECKING:
    from cffem.engine.solve.stage_types import PetscOptions
    from cffem.symbols.problem.interventions import Intervention
    from cffem.symbols.problem.library import Library
    from cffem.symbols.problem.system import System


REFITS = ("none", "remaining")

# What plain data of another shape than expected raise.
UNFIT = (KeyError, TypeError, AttributeError, IndexError, ValueError)


class Study:
    """A library in one or several experiments.

    Args:
        library: a `Library` or `System`.
        experiments: one experiment, several, or several by name.
        data: measured data: a `Dataset` of fields, or readings of sensors (`Dataset.from_readings`,
            a pair of an observation and its values, or the values alone where the experiment has an
            `observation`); one for each experiment (a sequence, or a mapping from their names).
        fit: how coefficients are found from data: "regression" (needs fields), "calibration"
            (solves the model again, needs readings), "both" (regression gives the start of a
            calibration), or "auto", which says which and why.
        calibration: how readings are fitted.
        coefficients: α_j by term name where they are known; otherwise they are identified from the
            data.
        refit: "none", a deletion leaves the other coefficients as they are, or "remaining", they
            are refitted without the deleted term; then both classes of interventions are studied
            and the verdicts are those with refit.
        screening: how terms are screened, for unknown coefficients.
        certification: tolerance and norm of the verdicts.
        observables: by name an observable and its own tolerance.
        petsc_options: options of the linear solver.
        candidates: experiments that could be done next, by name; where terms cannot be told apart
            the best is proposed.
        interventions: by names of one's own, what else is asked: groups of terms that are one
            effect (`cf.delete("u/thermal", "T/heat")`), `cf.scale`, `cf.set`, `cf.force`,
            `cf.start`, `cf.boundary`, `cf.release`, joined by `&`. Each gets a score, an error bar
            and a verdict like a term.
        profiles: terms whose profile ρ ↦ δ(ρ) is wanted, the coefficient becoming (1 − ρ) α, with
            error bars, for the solution and for each observable.
        pairs: whether all pairs of terms are deleted as well, which tells terms that stand in for
            each other from terms that cancel.
        seed: of everything random that the study itself starts.
        units: units by name, {"x": "km", "t": "d", "T": "K"}, of coordinates (x for all in space),
            fields, known fields and parameters. Terms are then checked, coefficients may be given
            with a unit, "5000 m^2/s", and the report names theirs.

    Example:
        >>> import cffem as cf, sympy as sp
        >>> from mpi4py import MPI
        >>> u = cf.ScalarField("u")
        >>> library = cf.Library(anchor=cf.dt(u), terms={"u": u, "lap": cf.lap(u)})
        >>> experiment = cf.Experiment(
        ...     mesh=cf.mesh.interval(MPI.COMM_SELF, 0.1),
        ...     elements={u: ("Lagrange", 2)},
        ...     boundary=[cf.Dirichlet(u, 0)],
        ...     initial={u: sp.sin(sp.pi * cf.x)},
        ...     time=cf.Window(0, 0.1, steps=4),
        ... )
        >>> report = Study(library, experiment, coefficients={"u": 1.0, "lap": 0.5}).run()
        >>> report.terms["lap"].deletion > report.terms["u"].deletion
        True
    """

    def __init__(
        self,
        library: Library | System,
        experiments: Experiment | Sequence[Experiment] | Mapping[str, Experiment],
        *,
        data: Any = None,
        fit: str = AUTO,
        calibration: CalibrationSettings | None = None,
        coefficients: Mapping[str, float | str] | None = None,
        refit: str = "none",
        screening: Screening | None = None,
        certification: Certification | None = None,
        observables: Mapping[str, tuple[Observable, float]] | None = None,
        petsc_options: PetscOptions | None = None,
        candidates: Mapping[str, Experiment] | None = None,
        interventions: Mapping[str, Intervention] | None = None,
        pairs: bool = False,
        profiles: Iterable[str] = (),
        seed: int = 0,
        units: Mapping[str, str] | None = None,
    ):
        if not hasattr(library, "equations"):
            raise InputError(f"a study needs a Library or a System, not {type(library).__name__}")
        self.library = library
        self.experiments = named_experiments(experiments)
        measured = named_measurements(data, self.experiments)
        self.data, self.readings = dict(measured.fields), dict(measured.readings)
        if self.data and coefficients is None:
            self.library = library = for_measured_fields(library, self.experiments.values())
        self.calibration = calibration or CalibrationSettings()
        self.units = Units(units, library) if units else None
        self.coefficients = plain_coefficients(coefficients, self.units)
        self.refit = refit
        self.screening = screening or Screening(random_state=seed)
        asked = certification or Certification()
        self.fields = counted_fields(library, asked.norm)
        relative = bool(self.fields) if asked.relative is None else asked.relative
        self.certification = replace(asked, relative=relative)
        self.observables = checked_observables(observables or {})
        self.petsc_options = dict(petsc_options or {})
        self.candidates = named_experiments(candidates) if candidates else {}
        self.interventions = checked_interventions(interventions or {}, library)
        self.pairs = checked_flag(pairs)
        self.profiles = checked_names(profiles, library)
        self._set_tolerances()
        self.step_notes = self._hit_spells()
        self.seed = int(seed)
        self.started = False
        self._check()
        self.fit_choice = chosen_fit(fit, self.coefficients is not None, measured)
        forms = forms_among(library.items())
        if forms and self.regressed:
            raise InputError(
                f"{', '.join(forms)}: a term given as a UFL form has no regression rows; give "
                "coefficients, or fit='calibration'"
            )
        for name, fields in self.data.items():
            self.experiments[name] = fitting.from_data(self.experiments[name], fields, library)
            if self.calibrated:
                self.readings[name] = readings_of_fields(name, fields)
        self.observations = {
            name: self.readings[name][0] if name in self.readings else experiment.observation
            for name, experiment in self.experiments.items()
        }

    @property
    def calibrated(self) -> bool:
        """Whether coefficients come from readings by solving again."""
        return self.fit_choice.kind in (CALIBRATION, BOTH)

    @property
    def regressed(self) -> bool:
        """Whether coefficients come from fields by regression."""
        return self.fit_choice.kind == REGRESSION

    def _check(self) -> None:
        if self.refit not in REFITS:
            raise InputError(f"refit is 'none' or 'remaining', not {self.refit!r}")
        if self.coefficients is not None:
            self.coefficients = {
                n: v
                for n, v in checked_coefficients(self.library, self.coefficients).items()
                if n in self.coefficients
            }
            if not any(self.coefficients.values()):
                raise InputError(
                    "all coefficients of the study are zero, so there is nothing to delete"
                )

    def _hit_spells(self) -> dict[str, str]:
        """Give windows as many steps as end where interventions begin and end; what was changed, by
        experiment.
        """
        notes = {}
        for name, experiment in self.experiments.items():
            window = experiment.time
            if window is None:
                continue
            hit = window_of_spells(self.interventions.values(), window)
            if hit is not window:
                self.experiments[name] = replace(experiment, time=hit)
                notes[name] = (
                    f"the window has {hit.steps} time steps instead of {window.steps}, so that "
                    "steps end where interventions begin and end"
                )
        return notes

    def _set_tolerances(self) -> None:
        """Give windows whose steps are chosen automatically a tenth of ε as their tolerance.

        Raises:
            InputError: ε is not relative to the solution, as tolerances are.
        """
        for group in (self.experiments, self.candidates):
            for name, experiment in group.items():
                window = experiment.time
                if window is None or window.tolerance != "auto":
                    continue
                if not self.certification.relative:
                    raise InputError(
                        "tolerance='auto' is a tenth of an ε that is relative to the solution; "
                        "give the window a number, 1e-3 say, or take relative=True"
                    )
                share = min(ADAPTIVE.share * float(self.certification.epsilon), LARGEST_TOLERANCE)
                group[name] = replace(experiment, time=replace(window, tolerance=share))

    def run(
        self, out: str | Path | None = None, resume: bool = False, quiet: bool = False
    ) -> Report:
        """Go through all stations; collective over the communicator of the meshes.

        Args:
            out: the folder for checkpoints and results, written by rank 0; None keeps nothing.
            resume: go on where an earlier run of the same study in the same folder ended.
            quiet: show nothing, even on a terminal.

        Raises:
            InputError: the study cannot be done as it is written, or the folder belongs to another
                study or run.
        """
        now = settings.current()
        self.started = True
        if now.dry_run:
            raise settings.PlanOnly(self)
        progress = now.progress or progress_of_script(MPI.COMM_WORLD.rank, quiet)
        run = Run(self, out, resume or now.resume, progress)
        finished = False
        try:
            report, drawing = stations(run)
            if run.checkpoint.folder is not None:
                write_results(run, report, drawing)
            finished = True
            return report
        except UNFIT as error:
            # Checksums find what was edited or damaged; what was made up to fit them, or is another
            # version's, is found here.
            if run.checkpoint.restored and not isinstance(error, InputError):
                said = f"{type(error).__name__}: {error}"
                raise OutputError(
                    f"the checkpoint in {out} does not fit this study ({said}); choose another "
                    "folder"
                ) from error
            raise
        finally:
            progress.close()
            run.checkpoint.close(finished)
            if finished:
                run.destroy()


def stations(run: Run) -> tuple[Report, Any]:
    """All stations in order; the report, and on rank 0 the drawing of the fields."""
    study = run.study
    found = Findings(study.coefficients or {})
    if study.calibrated:
        found.calibration = calibrating.calibration(run)
        run.noise_level = found.calibration["noise_level"]
        calibrating.take_amplitudes(run, found.calibration)
        found.coefficients = found.calibration["coefficients"]
    if not study.regressed:
        solving.set_up(run, found.coefficients)
        check_interventions(run)
        found.factual = solving.factual(run)
    found.constraint = constraining.constraints(run)
    identification = identifying.Identification(
        run, constraining.effective_names(found.constraint, run)
    )
    found.design = identifying.design(run, identification)
    found.screening = identifying.screening(run, identification)
    found.sensitivities = {} if study.calibrated else observing.sensitivities(run)
    ranges: Mapping[str, Sequence[float]] = {}
    if study.regressed:
        found.coefficients, ranges = identifying.estimated(found.screening)
        solving.set_up(run, found.coefficients)
        check_interventions(run)
        found.factual = solving.factual(run)
    refits = refits_from_data(run, identification, found)
    nulls = {name: constraining.nulls_of(found.constraint, name) for name in run.experiments}
    sizes = {name: found.factual[name].norm or 0.0 for name in run.models}
    deletions = deleting.Deletions(run, found.factual, nulls, refits)
    found.deletions = deletions.all()
    found.profiles = profiling.asked_profiles(run, found.factual)
    found.linearised, found.residuals = scoring.linearised(run), scoring.residuals(run)
    found.adjoints = scoring.adjoints(run)
    found.observable_bounds = scoring.observable_bounds(run, deletions, found.deletions)
    alone = found.deletions[deleting.ALONE]
    found.reading_bars = observing.bars(run, deletions, alone, deleting.ALONE)
    found.spreads = (
        covariance_spread.covariance_spreads(run, found.calibration, deletions, found.deletions)
        if found.calibration is not None
        else intervals.spreads(run, ranges, deletions, found)
    )
    left_open = intervals.relative_spread(found.spreads, sizes)
    screens = found.screening
    if found.calibration is not None:
        screens = calibrating.limits_of(found.calibration)
    found.limits = detecting.limits(run, screens)
    found.misfits = misfit.misfits(
        run,
        found.design,
        # Intervals of a screen that misfits hold the misfit themselves, and explain nothing of it.
        {} if misfit.seen_by_screen(found.screening) else left_open,
        misfit.discretisation_errors(alone, sizes),
    )
    found.next_sensor = next_sensor.next_sensor(run)
    found.proposal = proposing.proposal(run, identification, found.design)
    if run.checkpoint.edit is not None:
        run.progress.note(run.reused())
    run.progress.begin("report")
    report = reporting.Reporting(run, found).report(
        lambda decisions: deletions.mapped(found.deletions, decisions)
    )
    if not run.wants_pictures():
        return report, None
    write_maps(run, deletions)
    return report, deletions.drawing(found.deletions)


def write_maps(run: Run, deletions: deleting.Deletions) -> None:
    """Write what ParaView shows into the folder of results; collective."""
    assert run.checkpoint.folder is not None
    try:
        deletions.write_maps(run.checkpoint.folder)
    except (OSError, RuntimeError) as error:
        raise OutputError(f"the maps cannot be written: {error}; make room and resume") from None


def refits_from_data(run: Run, identification: identifying.Identification, found: Findings) -> Any:
    """The coefficients of the others, fitted to the data without a term; None where coefficients
    are given and are refitted on the solution.
    """
    if run.study.coefficients is not None:
        return None
    fit = found.calibration
    if fit is not None:
        return lambda term: fit["refits"].get(term, {}).get("coefficients", {})
    return lambda term: identifying.refitted_without(identification, found.screening, term)


def write_results(run: Run, report: Report, drawing: Any) -> None:
    """Write the report and the pictures' data; the report last, since it says that the study
    is finished.
    """
    from cffem.engine.collective import collectively
    from cffem.study.run.checkpoint import OutputError

    def write() -> None:
        assert run.checkpoint.folder is not None
        try:
            if drawing is not None:
                drawing.write(run.checkpoint.folder)
            report.write(run.checkpoint.folder)
        except OSError as error:
            raise OutputError(
                f"the report cannot be written: {error.strerror or error}; make room and resume"
            ) from None

    collectively(run.comm, write)


def named_experiments(given: Any) -> dict[str, Experiment]:
    """Experiments by name."""
    if isinstance(given, Experiment):
        given = [given]
    named = (
        dict(given)
        if isinstance(given, Mapping)
        else {f"experiment {k}": e for k, e in enumerate(given, 1)}
    )
    if not named:
        raise InputError("a study needs at least one experiment")
    for name, experiment in named.items():
        if not isinstance(experiment, Experiment):
            raise InputError(f"{name!r} is not an Experiment but a {type(experiment).__name__}")
        if not isinstance(name, str) or not name or "/" in name or not name.isprintable():
            raise InputError(f"an experiment's name is printable text without '/', not {name!r}")
    return named


def checked_names(given: Iterable[str], library: Library | System) -> tuple[str, ...]:
    """Terms whose profiles are wanted."""
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if name not in library.names:
            raise InputError(
                f"profiles name a term {name!r} that is not there; {nearest(name, library.names)}"
            )
    return tuple(dict.fromkeys(names))


def plain_coefficients(
    given: Mapping[str, float | str] | None, units: Units | None
) -> dict[str, float] | None:
    """Coefficients as numbers in the units of the study."""
    if given is None:
        return None
    texts = [name for name, value in given.items() if isinstance(value, str)]
    if texts and units is None:
        raise InputError(
            f"the coefficient of {texts[0]!r} is given with a unit, but the study has no units; "
            'say those of coordinates and fields, units={"x": "m", "t": "s", "u": "K"}'
        )
    if units is None:
        return {name: value for name, value in given.items() if not isinstance(value, str)}
    return {name: units.number(name, value) for name, value in given.items()}


def checked_flag(pairs: bool) -> bool:
    """Whether pairs are studied."""
    if not isinstance(pairs, bool):
        raise InputError(f"pairs is True or False, not {pairs!r}")
    return pairs


def checked_observables(
    given: Mapping[str, tuple[Observable, float]],
) -> dict[str, tuple[Observable, float]]:
    """Observables with positive tolerances."""
    result = {}
    for name, pair in given.items():
        if not (
            isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], Observable)
        ):
            raise InputError(
                f"the observable {name!r} is a pair of an observable and its tolerance, "
                "(cf.Integral(u), 1e-4)"
            )
        observable, epsilon = pair
        if (
            isinstance(epsilon, bool)
            or not isinstance(epsilon, int | float)
            or not 0 < epsilon < float("inf")
        ):
            raise InputError(
                f"the tolerance of the observable {name!r} must be a positive number, not "
                f"{epsilon!r}"
            )
        result[str(name)] = (observable, float(epsilon))
    return result
