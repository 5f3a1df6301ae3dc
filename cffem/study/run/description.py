# SPDX-License-Identifier: MIT
"""What a study is, as plain data: everything that its numbers depend on, so that a checkpoint of
another study is recognised.

Expressions are described by their text, meshes by a hash of their cells and measurements by a hash
of their values; neither depends on how many ranks there are. Functions that users write in Python
cannot be described and count by their names.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

import cffem
from cffem.symbols.problem.observables import Observable

if TYPE_CHECKING:
    from dolfinx.mesh import Mesh

    from cffem.engine.mesh.meshes import MeshData
    from cffem.study.study import Study
    from cffem.symbols.problem.experiment import Experiment
    from cffem.symbols.problem.uncertain import Uncertain

SHOWN = 4


def described(study: Study, meshes: Mapping[str, MeshData | None]) -> dict[str, object]:
    """The description of a study; collective.

    Args:
        study: the study.
        meshes: the mesh of each experiment, distributed.
    """
    return {
        "version": cffem.__version__,
        "library": {
            str(unknown): {
                "anchor": str(equation.anchor),
                "terms": {name: str(term) for name, term in equation.terms.items()},
            }
            for unknown, equation in study.library.equations.items()
        },
        "parameters": {str(name): plain(value) for name, value in study.library.parameters.items()},
        "coefficients": None
        if study.coefficients is None
        else {name: float(v) for name, v in study.coefficients.items()},
        "experiments": {
            name: experiment_of(e, meshes[name]) for name, e in study.experiments.items()
        },
        "data": {name: plain(data) for name, data in study.data.items()},
        "fit": study.fit_choice.kind,
        "calibration": plain(study.calibration),
        "readings": {
            name: [plain(observation), plain(values)]
            for name, (observation, values) in study.readings.items()
        },
        "candidates": {name: experiment_of(e, None) for name, e in study.candidates.items()},
        "refit": study.refit,
        "screening": plain(study.screening.get_params()),
        "certification": plain(dataclasses.asdict(study.certification)),
        "observables": {
            name: [plain(o), float(epsilon)] for name, (o, epsilon) in study.observables.items()
        },
        "interventions": {name: plain(change) for name, change in study.interventions.items()},
        "pairs": study.pairs,
        "profiles": list(study.profiles),
        "petsc_options": plain(study.petsc_options),
        "seed": study.seed,
    }


def experiment_of(experiment: Experiment, domain: MeshData | None) -> dict[str, object]:
    """One experiment; the mesh by its cells, known fields by their values."""
    mesh = None if domain is None else domain.mesh
    return {
        "mesh": None if mesh is None else mesh_fingerprint(mesh),
        "subdomains": None if domain is None else subdomains_of(domain),
        "elements": {str(key): plain(value) for key, value in experiment.elements.items()},
        "initial": {str(key): plain(value) for key, value in experiment.initial.items()},
        "boundary": [plain(condition) for condition in experiment.boundary],
        "time": plain(experiment.time),
        "constraint": plain(experiment.constraint),
        "forcing": {str(key): plain(value) for key, value in experiment.forcing.items()},
        "known": known_content(experiment, domain),
        "observation": plain(experiment.observation),
        **(
            {"stabilisation": {str(key): kind for key, kind in experiment.stabilisation.items()}}
            if experiment.stabilisation
            else {}
        ),
        **(
            {"uncertain": [uncertain_of(e) for e in experiment.uncertain]}
            if experiment.uncertain
            else {}
        ),
    }


def uncertain_of(each: Uncertain) -> dict[str, object]:
    """Data that are known up to amplitudes."""
    return {
        "what": each.what,
        "labels": list(each.labels),
        "functions": [plain(function) for function in each.functions],
        "deviations": [repr(value) for value in each.deviations],
    }


def mesh_fingerprint(mesh: Mesh) -> str:
    """A hash of all cells by the coordinates of their vertices, the same on any number of
    ranks; collective.
    """
    from cffem.engine.store.exchange import digest as digest_of_parts
    from cffem.engine.store.exchange import sorted_by_hash
    from cffem.engine.store.numbering import cell_keys

    keys, _ = cell_keys(mesh, mesh.topology.index_map(mesh.topology.dim).size_local)
    cells = sorted_by_hash(mesh.comm, keys).astype("<u8")
    return f"{mesh.comm.allreduce(len(cells))} cells {digest_of_parts(mesh.comm, cells)[:16]}"


def subdomains_of(domain: MeshData) -> dict[str, str]:
    """A hash of the cells of each named subdomain; collective."""
    from cffem.engine.store.exchange import digest as digest_of_parts
    from cffem.engine.store.exchange import sorted_by_hash
    from cffem.engine.store.numbering import cell_keys

    if domain.cell_tags is None:
        return {}
    mesh = domain.mesh
    owned = mesh.topology.index_map(mesh.topology.dim).size_local
    keys, _ = cell_keys(mesh, owned)
    found = {}
    for name, (dimension, tag) in sorted(domain.names.items()):
        if dimension == mesh.topology.dim:
            cells = domain.cell_tags.find(tag)
            part = sorted_by_hash(mesh.comm, keys[cells[cells < owned]])
            found[name] = digest_of_parts(mesh.comm, part.astype("<u8"))[:16]
    return found


def known_content(experiment: Experiment, domain: MeshData | None) -> dict[str, object]:
    """The values of known fields: formulas by text, all others by values; collective."""
    if domain is None:
        return {str(key): plain(value) for key, value in experiment.known.items()}
    from cffem.engine.inputs.known_fields import content_of

    return {
        str(key): content_of(key, value, domain) or plain(value)
        for key, value in experiment.known.items()
    }


def plain(value: object) -> object:
    """JSON's own types for what users write.

    Example:
        >>> import cffem as cf
        >>> plain(cf.Window(0, 1, steps=4))
        {'Window': {'start': 0, 'end': 1, 'steps': 4, 'scheme': None}}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, sp.Basic | sp.MatrixBase):
        return str(value)
    if isinstance(value, np.ndarray):
        return f"array {value.shape} {digest(value)}"
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        named = {
            f.name: plain(getattr(value, f.name))
            for f in dataclasses.fields(value)
            if f.compare and not ("optional" in f.metadata and getattr(value, f.name) is None)
        }
        return {type(value).__name__: named}
    return str(
        getattr(value, "__qualname__", None) or getattr(value, "name", None) or type(value).__name__
    )


def digest(array: np.ndarray) -> str:
    """A short hash of an array's values."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def differences(old: object, new: object) -> list[str]:
    """Where two descriptions differ, a few of the places, each with both values.

    Example:
        >>> differences({"a": {"b": 1, "c": 2}}, {"a": {"b": 1, "c": 3}})
        ['a.c was 2 and is 3']
    """
    found = list(_differences(old, new, ""))
    more = [f"and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
    return found[:SHOWN] + more


def _differences(old: object, new: object, where: str) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in (*old, *(key for key in new if key not in old)):
            place = f"{where}.{key}" if where else str(key)
            if key not in old:
                yield f"{place} is new"
            elif key not in new:
                yield f"{place} is gone"
            else:
                yield from _differences(old[key], new[key], place)
        if old == new and list(old) != list(new):
            yield f"the order of {where} has changed"
    elif old != new:
        yield f"{where} was {_short(old)} and is {_short(new)}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def observable_text(observable: Observable) -> str:
    """An observable in words.

    Example:
        >>> import cffem as cf
        >>> observable_text(cf.Integral(cf.ScalarField("u")))
        'Integral of u at end'
    """
    where = f" on {observable.on}" if observable.on else ""
    return f"{type(observable).__name__} of {observable.expr}{where} at {observable.at}"
