"""Station: the factual solution of each experiment, with the given coefficients or with those that the screen found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cffem.study.running import Run, WatchedModel, plain_record

Facts = dict[str, Any]


def set_up(run: Run, coefficients: Mapping[str, float]) -> None:
    """Make the models."""
    for name in run.experiments:
        run.models[name] = WatchedModel(run, name, coefficients)


def factual(run: Run) -> Facts:
    """Norm, size and cost of each factual solution."""
    run.progress.begin("factual", len(run.models))
    return {
        name: run.once(f"factual/{name}", lambda model=model: solved(run, model), name, len(model.times) - 1)
        for name, model in run.models.items()
    }


def solved(run: Run, model: WatchedModel) -> Facts:
    """Solve one experiment."""
    solution = model.factual
    mesh = model.discretisation.mesh
    return {
        "norm": solution.norm(run.study.certification.norm),
        "record": plain_record(solution.record),
        "unknowns": model.spaces.size,
        "cells": mesh.topology.index_map(mesh.topology.dim).size_global,
        "cell": mesh.topology.cell_name(),
        "steps": len(model.times) - 1,
    }
