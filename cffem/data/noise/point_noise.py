# SPDX-License-Identifier: MIT
"""Noise of scattered sensors: its strength, whether it is correlated in time or along the mesh, and
a denoiser.

In the cosine basis of time every coefficient is a field on the points plus noise, and differences
of ever longer heat flow along the mesh split that field into bands of the mesh Laplacian. White
noise has the same power in every band at every frequency; correlated noise falls in time like
exp(−b κ²) and along the mesh as heat flow makes it, fitted above the frequencies that hold the
signal. Denoising smooths every coefficient by as many steps of heat flow as minimise Stein's
unbiased estimate of the risk, and drops what holds only noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial import chebyshev
from scipy import sparse
from scipy.fft import dct, idct

from cffem.data.noise.grid_noise import (
    GRID_NOISE,
    MEDIAN_TO_SD,
    high_differences,
    is_uniform,
)
from cffem.symbols.errors import InputError


@dataclass(frozen=True)
class PointNoiseSettings:
    """How noise is told from signal on scattered points.

    Args:
        steps: smoothing steps after which energies are compared.
        bands: smoothing steps that separate bands of wave numbers.
        probes: random fields that measure the response of a band.
        lengths: correlation lengths along the mesh at which responses are measured, in point
            distances.
        signal_frequencies: share of the frequencies in time that may hold signal.
        understood: scatter of the log-power around the law; noise stays below it, the spectra
            of signals do not.
        fewest_bins: frequencies beyond the signal that tell the colour of the noise.
        fewest_differences: order of differences in time from which a smooth signal vanishes in
            them.
        fewest_readings: reading times from which the colour of the noise can be told.
    """

    steps: tuple[int, ...] = (0, 1, 2, 4, 8, 16, 32, 64)
    bands: tuple[int, ...] = (0, 1, 2, 4, 8, 16, 32)
    probes: int = 8
    lengths: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
    signal_frequencies: float = 0.2
    understood: float = 0.2
    fewest_bins: int = 20
    fewest_differences: int = 3
    fewest_readings: int = 30


POINT_NOISE = PointNoiseSettings()


FINE_LENGTHS = np.arange(0.0, 4.01, 0.2)


@dataclass(frozen=True)
class MeshSmoothing:
    """Heat flow along a mesh of points.

    Args:
        laplacian: graph Laplacian in units of the usual point distance.
        dim: dimension of space.
    """

    laplacian: sparse.csr_matrix
    dim: int

    @cached_property
    def largest(self) -> float:
        """A bound of the largest eigenvalue of the Laplacian."""
        return 2 * float(self.laplacian.diagonal().max())

    @cached_property
    def step(self) -> sparse.csr_matrix:
        """One step of heat flow, I − L/λ with λ above the largest eigenvalue."""
        return (sparse.identity(self.laplacian.shape[0]) - self.laplacian / self.largest).tocsr()

    def after(self, fields: np.ndarray, counts: tuple[int, ...]) -> Iterator[np.ndarray]:
        """The fields after ever more steps."""
        done = 0
        for steps in counts:
            for _ in range(steps - done):
                fields = self.step @ fields
            done = steps
            yield fields

    def bands(self, fields: np.ndarray) -> list[np.ndarray]:
        """What the fields lose between one number of smoothing steps and the next, finest first."""
        smooth = list(self.after(fields, POINT_NOISE.bands))
        return [a - b for a, b in itertools.pairwise(smooth)]

    @cached_property
    def probes(self) -> np.ndarray:
        """Random signs, with which traces are estimated."""
        return np.random.default_rng(0).choice(
            [-1.0, 1.0], (self.laplacian.shape[0], POINT_NOISE.probes)
        )

    @cached_property
    def nyquist(self) -> float:
        """Eigenvalue of a wave that changes sign from point to point: L is about mean
        degree/(2 dim)·k² for smooth waves.
        """
        degree = float((self.laplacian.getnnz(axis=1) - 1).mean())
        return degree / (2 * self.dim) * math.pi**2

    @cached_property
    def band_energies(self) -> np.ndarray:
        """Energy of unit white noise in every band."""
        return np.array(
            [float((part**2).sum()) / POINT_NOISE.probes for part in self.bands(self.probes)]
        )

    @cached_property
    def band_responses(self) -> np.ndarray:
        """Log-power in every band (columns) of noise of unit variance with each of the
        correlation lengths (rows).
        """
        rows = []
        for length in POINT_NOISE.lengths:
            parts = self.bands(self.correlate(self.probes, (math.pi * length) ** 2))
            rows.append(
                [
                    math.log(float((p**2).sum()) / POINT_NOISE.probes / e)
                    for p, e in zip(parts, self.band_energies, strict=True)
                ]
            )
        return np.array(rows)

    def correlate(self, fields: np.ndarray, curvature: float) -> np.ndarray:
        """Heat flow that gives white noise the power exp(−curvature·κ²), scaled to keep its
        mean variance.
        """
        if curvature == 0:
            return fields
        if curvature not in self.losses:
            self.losses[curvature] = float(
                np.sqrt((self._flow(self.probes, curvature) ** 2).mean())
            )
        return self._flow(fields, curvature) / self.losses[curvature]

    def _flow(self, fields: np.ndarray, curvature: float) -> np.ndarray:
        """Steps of heat flow (I − τL/s)^s, by Chebyshev polynomials of L of which far fewer
        are needed than steps.
        """
        reach = curvature / (2 * self.nyquist) * self.largest
        steps = max(1, math.ceil(reach))
        degree = min(steps, math.ceil(4 * math.sqrt(steps) + 8))
        weights = chebyshev.chebinterpolate(
            lambda s: (1 - reach / (2 * steps) * (1 - s)) ** steps, max(1, degree)
        )
        previous, current = fields, self.chebyshev_step @ fields
        total = weights[0] * previous + weights[1] * current
        for weight in weights[2:]:
            previous, current = current, 2 * (self.chebyshev_step @ current) - previous
            total += weight * current
        return total

    @cached_property
    def chebyshev_step(self) -> sparse.csr_matrix:
        """I − 2L/λ, whose eigenvalues lie between −1 and 1."""
        return (
            sparse.identity(self.laplacian.shape[0]) - self.laplacian * (2 / self.largest)
        ).tocsr()

    @cached_property
    def losses(self) -> dict[float, float]:
        """Standard deviation that heat flow leaves of unit white noise, by curvature."""
        return {}


@dataclass(frozen=True)
class PointNoise:
    """Noise on scattered sensors.

    Args:
        sd: pointwise standard deviation.
        smoothing: heat flow along the mesh of the sensors.
        curvature: decay of the log-power along the mesh and in time; zeros for white noise.
    """

    sd: float
    smoothing: MeshSmoothing
    curvature: tuple[float, float] = (0.0, 0.0)

    @property
    def white(self) -> bool:
        return not any(self.curvature)

    @property
    def correlation_lengths(self) -> tuple[float, ...]:
        """Correlation length along the mesh in point distances, and in time in reading times."""
        return () if self.white else tuple(float(np.sqrt(b) / np.pi) for b in self.curvature)

    def time_power(self, count: int) -> np.ndarray:
        """Relative noise power of every temporal cosine coefficient, with mean one."""
        power = np.exp(-self.curvature[1] * ((np.arange(count) + 0.5) / count) ** 2)
        return power / power.mean()

    def draw(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Fresh noise of the same law."""
        noise = random.standard_normal(shape)
        if not self.white:
            noise = self.smoothing.correlate(noise, self.curvature[0])
            noise = idct(np.sqrt(self.time_power(shape[1])) * noise, axis=1, norm="ortho")
        return self.sd * noise

    def whitened(self, data: np.ndarray) -> np.ndarray:
        """The data with white noise of equal strength, whose flat floor shows where the
        spectrum of the signal ends.
        """
        return (
            data
            if self.white
            else self.remove(data) + self.sd * np.random.default_rng(0).standard_normal(data.shape)
        )

    @cached_property
    def _traces(self) -> list[float]:
        """Traces of the smoothing matrices times the spatial correlation of the noise,
        estimated with random probes.
        """
        noise = self.smoothing.correlate(self.smoothing.probes, self.curvature[0])
        return [
            float((noise * smooth).sum() / POINT_NOISE.probes)
            for smooth in self.smoothing.after(noise, POINT_NOISE.steps)
        ]

    def remove(self, data: np.ndarray) -> np.ndarray:
        """Smooth every temporal cosine coefficient as strongly as its noise asks for."""
        if self.sd == 0:
            return data
        coefficients = dct(data, axis=1, norm="ortho")
        size, variance = len(data), self.sd**2 * self.time_power(data.shape[1])
        best = np.zeros_like(coefficients)
        risk = (coefficients**2).sum(axis=0) - size * variance
        for smooth, trace in zip(
            self.smoothing.after(coefficients, POINT_NOISE.steps), self._traces, strict=True
        ):
            estimate = ((coefficients - smooth) ** 2).sum(axis=0) + (2 * trace - size) * variance
            better = estimate < risk
            best[:, better], risk = smooth[:, better], np.minimum(risk, estimate)
        return idct(best, axis=1, norm="ortho")


def measure_point_noise(
    values: np.ndarray,
    smoothing: MeshSmoothing,
    times: np.ndarray | None = None,
    misses: sparse.csr_matrix | None = None,
) -> PointNoise:
    """Standard deviation and colour of the noise of scattered sensors.

    Sixth differences in time give the strength of white noise, the fitted law that of correlated
    noise. Where readings are few, the misses of local fits in space count as well; both also see
    what the signal adds, so the smaller one is taken.

    Args:
        values: sensors × times.
        smoothing: heat flow along the mesh of the sensors.
        times: of the readings, if they are not equally far apart.
        misses: matrix that takes values to how far each is from a local fit to its neighbours, with
            rows of unit norm.
    """
    few = values.shape[1] <= 2 * GRID_NOISE.differences
    order = min(GRID_NOISE.differences, values.shape[1] - 2)
    seen = (
        [high_differences(values, 1, order, times)]
        if order >= POINT_NOISE.fewest_differences
        else []
    )
    if few and misses is not None:
        seen.append(misses @ values)
    if not seen:
        raise InputError(
            f"noise of scattered data needs more than {POINT_NOISE.fewest_differences + 1} "
            "reading times or "
            "fits in space, but there are "
            f"{values.shape[1]} times"
        )
    white = PointNoise(
        min(float(np.median(np.abs(part)) / MEDIAN_TO_SD) for part in seen), smoothing
    )
    irregular = times is not None and not is_uniform(times)
    if values.shape[1] < POINT_NOISE.fewest_readings or irregular:
        return white
    best = fitted_law(values, smoothing)
    if (
        best is None
        or best.scatter > POINT_NOISE.understood
        or max(best.along, best.time) < GRID_NOISE.white
    ):
        return white
    along, time = (b if b >= GRID_NOISE.white else 0.0 for b in (best.along, best.time))
    noise = replace(white, sd=1.0, curvature=(along, time))
    # The shape of the law comes from the bands, its level from the whole field: bands of an
    # irregular mesh know it less well.
    frequency = (np.arange(values.shape[1]) + 0.5) / values.shape[1]
    ratio = (dct(values, axis=1, norm="ortho") ** 2).mean(axis=0) / noise.time_power(
        values.shape[1]
    )
    trusted = (frequency > POINT_NOISE.signal_frequencies) & (time * frequency**2 < best.reach)
    noise = replace(noise, sd=float(np.sqrt(np.median(ratio[trusted]))))
    return white if noise.sd < GRID_NOISE.negligible * float(np.std(values)) else noise


@dataclass(frozen=True)
class Law:
    """Fitted noise: decay of its power along the mesh and in time, scatter of the log-power
    around it, how deep that reaches.
    """

    along: float
    time: float
    scatter: float
    reach: float


def fitted_law(values: np.ndarray, smoothing: MeshSmoothing) -> Law | None:
    """The law with the least scatter above the frequencies of the signal, over correlation
    lengths along the mesh.
    """
    frequency, log_power = band_spectrum(values, smoothing)
    high = frequency > POINT_NOISE.signal_frequencies
    square, log_power = frequency[high] ** 2, log_power[:, high]
    weights = np.sqrt(smoothing.band_energies)[:, None] * np.ones_like(log_power)
    best: Law | None = None
    for reach in (12.0, 8.0, 5.0):
        deep = log_power > log_power.max() - reach
        if deep.sum() < POINT_NOISE.fewest_bins:
            continue
        for length in FINE_LENGTHS:
            response = np.array(
                [
                    np.interp(length, POINT_NOISE.lengths, column)
                    for column in smoothing.band_responses.T
                ]
            )
            flat = log_power - response[:, None]
            time, scatter = trimmed_decay(
                np.broadcast_to(square, flat.shape)[deep], flat[deep], weights[deep]
            )
            if best is None or scatter < best.scatter:
                best = Law(float((math.pi * length) ** 2), time, scatter, reach)
    return best


def trimmed_decay(
    square: np.ndarray, values: np.ndarray, weights: np.ndarray
) -> tuple[float, float]:
    """Decay b of a − b κ² through most of the values, the farthest tenth left out, and the
    scatter around it.
    """
    features = np.column_stack([np.ones(len(square)), -square])
    kept = np.ones(len(square), dtype=bool)
    for _ in range(4):
        line = np.linalg.lstsq(
            features[kept] * weights[kept, None], values[kept] * weights[kept], rcond=None
        )[0]
        distance = np.abs(values - features @ line)
        kept = distance <= np.quantile(distance, 0.9)
    return float(line[1]), float(np.sqrt((distance[kept] ** 2).mean()))


def band_spectrum(values: np.ndarray, smoothing: MeshSmoothing) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies in time (shares of the Nyquist frequency) and the log-power of every band
    (rows) at each.
    """
    count = values.shape[1]
    parts = smoothing.bands(dct(values, axis=1, norm="ortho"))
    power = np.array(
        [(p**2).sum(axis=0) / e for p, e in zip(parts, smoothing.band_energies, strict=True)]
    )
    return (np.arange(count) + 0.5) / count, np.log(power + 1e-300)
