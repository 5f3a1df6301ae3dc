# SPDX-License-Identifier: MIT
"""PySINDy's weak form on the data of `cffem bench screening`, tuned as well as the truth allows.

Its sparsity threshold is not given to it: every threshold of a wide range is tried on the finished
library, and a run counts as exact if one of them returns the true support. So the figures are what
the best choice could reach, which no user can know.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.screening.identification_bench import NOISES, Identification, Record, seeds_of
from benchmarks.screening.identification_data import EquationFamily, Peer

THRESHOLDS = np.geomspace(1e-4, 2.0, 40)
DOMAINS = 300  # test functions, as many as its time allows
PEER_SEEDS = 2


def peers(board: Identification, seeds: int) -> None:
    """PySINDy on every family that its weak form can express."""
    try:
        import pysindy
    except ImportError:
        board.line("PySINDy is not installed (extra `bench`): comparison skipped")
        return
    for family in board.families():
        if family.peer is None:
            continue
        for noise in NOISES:
            runs = [
                r
                for seed in seeds_of(noise, min(seeds, PEER_SEEDS))
                for r in peer_runs(pysindy, family, noise, seed)
            ]
            board.records += runs
            board.line(
                f"PySINDy {pysindy.__version__}, {family.name}, {noise:.0%}: exact with the best "
                f"of {len(THRESHOLDS)} thresholds "
                f"{sum(r.exact for r in runs)}/{len(runs)}, "
                f"{np.median([r.seconds for r in runs]):.1f} s"
            )


def peer_runs(pysindy: Any, family: EquationFamily, noise: float, seed: int) -> list[Record]:
    """One fit with all thresholds, one record per equation."""
    peer = family.peer
    assert peer is not None
    coordinates, values = family.noisy(noise, seed)
    axes, data = list(coordinates.values()), np.stack(list(values.values()), axis=-1)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names, matrix, anchors = weak_system(pysindy, peer, axes, data, seed)
        supports = thresholded_supports(pysindy, matrix, anchors)
    seconds = time.process_time() - start
    found = []
    for number, truth in enumerate(peer.truths):
        best = min(supports, key=lambda s: len({names[j] for j in s[number]} ^ truth))
        kept = tuple(names[j] for j in best[number])
        exact = set(kept) == truth
        found.append(
            Record(
                "peer",
                "PySINDy",
                family.name,
                noise,
                seed,
                exact,
                False,
                0,
                0,
                0,
                0,
                None,
                seconds / len(peer.truths),
                kept,
                (),
            )
        )
    return found


def weak_system(
    pysindy: Any, peer: Peer, axes: list[np.ndarray], data: np.ndarray, seed: int
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Feature names, library and anchors of PySINDy's weak form."""
    np.random.seed(seed)  # noqa: NPY002 (PySINDy places its domains with the global generator)
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    library = pysindy.WeakPDELibrary(
        function_library=pysindy.PolynomialLibrary(degree=peer.degree, include_bias=peer.bias),
        derivative_order=peer.order,
        spatiotemporal_grid=grid,
        is_uniform=True,
        K=DOMAINS,
        include_interaction=peer.products,
    )
    model = pysindy.SINDy(
        feature_library=library, optimizer=pysindy.STLSQ(threshold=0.0, alpha=0.0)
    )
    model.fit(data, t=axes[-1])
    names = [name.replace(" ", "") for name in model.get_feature_names()]
    fields = (
        pysindy.AxesArray(data, pysindy.utils.comprehend_axes(data))
        if hasattr(pysindy, "AxesArray")
        else data
    )
    matrix = np.asarray(library.transform([fields])[0])
    anchors = np.asarray(library.convert_u_dot_integral(fields))
    return names, matrix, anchors


def thresholded_supports(
    pysindy: Any, matrix: np.ndarray, anchors: np.ndarray
) -> list[list[tuple[int, ...]]]:
    """For every threshold the support of each equation by PySINDy's sequentially thresholded
    least squares.
    """
    found = []
    for threshold in THRESHOLDS:
        optimizer = pysindy.STLSQ(threshold=float(threshold), alpha=1e-12, normalize_columns=True)
        optimizer.fit(matrix, anchors)
        found.append(
            [tuple(int(j) for j in np.flatnonzero(row)) for row in np.atleast_2d(optimizer.coef_)]
        )
    return found
