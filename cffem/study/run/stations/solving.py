# SPDX-License-Identifier: MIT
"""Station: the factual solution of each experiment, with the given coefficients or with those
that the screen found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cffem.engine.model import Model
from cffem.engine.solve.linear import SolveError
from cffem.engine.time.wellposed import check_direction_of_time
from cffem.study.run.counted import norm_of
from cffem.study.run.running import Run
from cffem.symbols.errors import InputError
from cffem.symbols.reasons import Code, Reason

Facts = dict[str, Any]


def set_up(run: Run, coefficients: Mapping[str, float]) -> None:
    """Make the models; known coefficients with the wrong sign are refused."""
    for name in run.experiments:
        run.models[name] = model = run.model(name, coefficients)
        if run.study.coefficients is not None:
            check_direction_of_time(run.study.library, coefficients, dimension(model))


def factual(run: Run) -> Facts:
    """Norm, size and cost of each factual solution, or why a fitted model was not solved;
    such a model is left behind.
    """
    run.progress.begin("factual", len(run.models))
    found = {
        name: run.once(
            f"factual/{name}",
            lambda name=name, model=model: solved(run, name, model),
            name,
            len(model.times) - 1,
        )
        for name, model in run.models.items()
    }
    for name, fact in found.items():
        if unsolved(fact) is not None:
            run.models.pop(name).destroy()
    return found


def unsolved(fact: Facts) -> Reason | None:
    """Why the fitted model of an experiment has no solution; None where it has one."""
    return Reason.from_plain(fact["unsolved"]) if fact.get("unsolved") else None


def solved(run: Run, name: str, model: Model) -> Facts:
    """Solve one experiment. What was identified must not be lost, so a fitted model that
    cannot be solved is a finding.
    """
    mesh = model.discretisation.mesh
    size = {
        "unknowns": model.spaces.size,
        "cells": mesh.topology.index_map(mesh.topology.dim).size_global,
        "cell": mesh.topology.cell_name(),
        "steps": len(model.times) - 1,
    }
    try:
        if run.study.coefficients is None:
            check_direction_of_time(run.study.library, model.coefficients, dimension(model))
        solution = model.factual
    except InputError as error:
        if run.study.coefficients is not None:
            raise
        why = f"the fitted model is not solved: {error}"
        return {
            "norm": None,
            "record": None,
            **size,
            "unsolved": Reason(Code.MODEL_BACKWARD, why).to_plain(),
        }
    except SolveError as error:
        if run.study.coefficients is None:
            why = f"the fitted model cannot be solved: {error}"
            code = getattr(error, "code", None) or Code.MODEL_UNSOLVED
            return {"norm": None, "record": None, **size, "unsolved": Reason(code, why).to_plain()}
        raise InputError(
            f"the model cannot be solved in {name!r}, before anything is deleted: {error}; "
            "look at the signs and sizes of "
            "its coefficients and at its boundary conditions, or take more time steps"
        ) from error
    norm = run.study.certification.norm
    norms = {field: solution.norm(norm_of(norm, field)) for field in run.study.fields}
    return {
        "norm": solution.norm(norm),
        "norms": norms,
        "record": asdict(solution.record),
        **size,
        "notes": list(model.notes),
    }


def dimension(model: Model) -> int:
    """The dimension of space."""
    return int(model.discretisation.mesh.geometry.dim)
