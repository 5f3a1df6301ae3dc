# SPDX-License-Identifier: MIT
"""Station: the factual solution of each experiment, with the given coefficients or with those that the screen found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cffem.engine.linear import SolveError
from cffem.engine.wellposed import check_direction_of_time
from cffem.study.running import Run, WatchedModel
from cffem.symbols.errors import InputError

Facts = dict[str, Any]


def set_up(run: Run, coefficients: Mapping[str, float]) -> None:
    """Make the models; known coefficients with the wrong sign are refused, estimated ones are a finding."""
    for name in run.experiments:
        run.models[name] = model = WatchedModel(run, name, coefficients)
        if run.study.coefficients is not None:
            check_direction_of_time(run.study.library, coefficients, model.discretisation.mesh.geometry.dim)


def factual(run: Run) -> Facts:
    """Norm, size and cost of each factual solution."""
    run.progress.begin("factual", len(run.models))
    return {
        name: run.once(f"factual/{name}", lambda model=model: solved(run, model), name, len(model.times) - 1)
        for name, model in run.models.items()
    }


def solved(run: Run, model: WatchedModel) -> Facts:
    """Solve one experiment."""
    try:
        solution = model.factual
    except SolveError as error:
        raise InputError(
            f"the model cannot be solved in {model.name!r}, before anything is deleted: {error}; look at the signs and sizes of "
            "its coefficients and at its boundary conditions, or take more time steps"
        ) from error
    mesh = model.discretisation.mesh
    return {
        "norm": solution.norm(run.study.certification.norm),
        "record": asdict(solution.record),
        "unknowns": model.spaces.size,
        "cells": mesh.topology.index_map(mesh.topology.dim).size_global,
        "cell": mesh.topology.cell_name(),
        "steps": len(model.times) - 1,
    }
