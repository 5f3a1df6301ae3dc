# SPDX-License-Identifier: MIT
"""Station: the factual solution of each experiment, with the given coefficients or with those
that the screen found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.engine.time.wellposed import check_model_direction, why_backward
from cffem.study.run.facts import FactualFact
from cffem.study.run.plan import OVERHEADS, Price, Stopwatch, more_problems, priced, timed
from cffem.study.run.running import Run
from cffem.symbols.errors import InputError
from cffem.symbols.problem.experiment import Window
from cffem.symbols.problem.known_values import with_known
from cffem.symbols.problem.norm_names import of_field
from cffem.symbols.reasons import Code, Reason

# With fewer steps than this the factual solve itself is waited for.
FEW_STEPS = 6


def set_up(run: Run, coefficients: Mapping[str, float]) -> None:
    """Make the models; known coefficients with the wrong sign are refused."""
    for name, experiment in list(run.experiments.items()):
        if run.study.coefficients is not None:
            # What formulas tell is told before time steps are chosen by solving anything.
            library = with_known(run.study.library, experiment)[0]
            dim, bound = int(experiment.mesh.mesh.geometry.dim), experiment.constraint is not None
            words = why_backward(library, coefficients, dim, constrained=bound)
            if words:
                raise InputError(f"{words}; change the sign")
        run.models[name] = model = run.model(name, coefficients)
        if run.study.coefficients is not None:
            check_model_direction(model, coefficients)


def factual(run: Run) -> dict[str, FactualFact]:
    """Norm, size and cost of each factual solution, or why a fitted model was not solved;
    such a model is left behind.
    """
    run.progress.begin("factual", len(run.models))
    found, watch = {}, Stopwatch()
    kept = [name for name in run.models if f"factual/{name}" in run.checkpoint]
    prices = {} if kept else step_prices(run)
    if prices:
        announce(run, prices)
    for name, model in run.models.items():
        plain = run.once(
            f"factual/{name}",
            lambda name=name, model=model: solved(run, name, model).to_plain(),
            name,
            len(model.times) - 1,
        )
        found[name] = FactualFact.from_plain(plain)
    if not kept and not prices and run.models:
        share = watch.seconds / len(run.models)
        announce(
            run,
            {
                name: Price.of(model, 0.0, share / max(len(model.times) - 1, 1))
                for name, model in run.models.items()
            },
        )
    for name, fact in found.items():
        if fact.unsolved is not None:
            run.models.pop(name).destroy()
    return found


def step_prices(run: Run) -> dict[str, Price]:
    """What one time step of each experiment takes on its real mesh; nothing where one is steady,
    which is solved as a whole first.
    """
    found = {}
    for name, model in run.models.items():
        window = model.experiment.time
        if window is None or window.steps < FEW_STEPS or window.adaptive or window.levels:
            return {}
        end = window.start + window.step
        with run.watch.quietly(), model.at(Window(window.start, end, 1, window.scheme)) as short:
            found[name] = timed(short, 0.0)
    return found


def announce(run: Run, prices: Mapping[str, Price]) -> None:
    """Say what the study costs, from what one step or a whole solve took."""
    study, total, bars, most = run.study, 0.0, 0.0, 0.0
    classes = 2 if study.refit == "remaining" else 1
    terms = max((len(model.active) for model in run.models.values()), default=0)
    rest = OVERHEADS.page(terms)
    for name, price in prices.items():
        model = run.models[name]
        steps, count = max(len(model.times) - 1, 1), len(model.active)
        changed = classes * count + more_problems(study, count)
        total += price.sweep(steps, changed) + price.others(steps, count, len(study.observables))
        bars += price.bars(steps, changed)
        most += study.certification.effort * price.sweep(steps, changed)
        rest += price.rows(steps, count)
    run.price = total + bars + rest
    run.progress.note(priced(total, bars, most, rest))


def solved(run: Run, name: str, model: Model) -> FactualFact:
    """Solve one experiment. What was identified must not be lost, so a fitted model that
    cannot be solved is a finding.
    """
    mesh = model.discretisation.mesh
    fact = FactualFact(
        unknowns=model.spaces.size,
        cells=mesh.topology.index_map(mesh.topology.dim).size_global,
        cell=mesh.topology.cell_name(),
        steps=len(model.times) - 1,
    )
    try:
        if run.study.coefficients is None:
            check_model_direction(model, model.coefficients)
        solution = model.factual
    except InputError as error:
        if run.study.coefficients is not None:
            raise
        why = f"the fitted model is not solved: {error}"
        return replace(fact, unsolved=Reason(Code.MODEL_BACKWARD, why))
    except SolveError as error:
        if run.study.coefficients is None:
            why = f"the fitted model cannot be solved: {error}"
            code = getattr(error, "code", None) or Code.MODEL_UNSOLVED
            return replace(fact, unsolved=Reason(code, why))
        raise InputError(
            f"the model cannot be solved in {name!r}, before anything is deleted: {error}; "
            "look at the signs and sizes of "
            "its coefficients and at its boundary conditions, or take more time steps"
        ) from error
    norm = run.study.certification.norm
    return replace(
        fact,
        norm=solution.norm(norm),
        norms={field: solution.norm(of_field(norm, field)) for field in run.study.fields},
        record=solution.record,
        notes=(
            *model.notes,
            *([run.study.step_notes[name]] if name in run.study.step_notes else []),
        ),
    )
