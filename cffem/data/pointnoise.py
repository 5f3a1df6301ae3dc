"""Noise of scattered sensors: its strength, whether it is correlated in time or along the mesh, and a denoiser.

In the cosine basis of time every coefficient is a field on the points plus noise, and differences of ever longer heat flow along
the mesh split that field into bands of the mesh Laplacian. White noise has the same power in every band at every frequency;
correlated noise falls like exp(−b_t κ² − b_x k²), fitted above the frequencies that hold the signal. Denoising smooths every
coefficient by as many steps of heat flow as minimise Stein's unbiased estimate of the risk, and drops what holds only noise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.fft import dct, idct

from cffem.data.noise import DIFFERENCES, MEDIAN_TO_SD, NEGLIGIBLE, WHITE, fit_law, high_differences

STEPS = (0, 1, 2, 4, 8, 16, 32, 64)
BANDS = (0, 1, 2, 4, 8, 16)
PROBES = 8
SIGNAL_FREQUENCIES = 0.2  # share of the frequencies in time that may hold signal
UNDERSTOOD = 0.15  # scatter of the log-power around the law; noise stays below it, the spectra of signals do not
FEWEST_READINGS = 30  # reading times from which the colour of the noise can be told


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
        """The parts of the fields that vanish between one number of steps and the next, finest first."""
        smooth = list(self.after(fields, BANDS))
        return [a - b for a, b in itertools.pairwise(smooth)]

    @cached_property
    def probes(self) -> np.ndarray:
        """Random signs, with which traces are estimated."""
        return np.random.default_rng(0).choice([-1.0, 1.0], (self.laplacian.shape[0], PROBES))

    @cached_property
    def nyquist(self) -> float:
        """Eigenvalue of a wave that changes sign from point to point: L is about mean degree/(2 dim)·k² for smooth waves."""
        degree = float((self.laplacian.getnnz(axis=1) - 1).mean())
        return degree / (2 * self.dim) * math.pi**2

    @cached_property
    def band_energies(self) -> tuple[np.ndarray, np.ndarray]:
        """Energy of unit white noise in every band, and wave numbers of the bands as shares of the Nyquist number."""
        parts = self.bands(self.probes)
        energy = np.array([float((p**2).sum()) / PROBES for p in parts])
        values = np.array([float((p * (self.laplacian @ p)).sum()) / PROBES for p in parts]) / energy
        return energy, np.sqrt(values / self.nyquist)

    def correlate(self, fields: np.ndarray, curvature: float) -> np.ndarray:
        """Heat flow that gives white noise the power exp(−curvature·κ²), scaled to keep its mean variance."""
        if curvature == 0:
            return fields
        steps, after = self._flow(curvature)
        for _ in range(steps):
            fields = after @ fields
        return fields / self._loss(curvature)

    def _flow(self, curvature: float) -> tuple[int, sparse.csr_matrix]:
        time = curvature / (2 * self.nyquist)
        steps = max(1, math.ceil(time * self.largest))
        return steps, (sparse.identity(self.laplacian.shape[0]) - self.laplacian * (time / steps)).tocsr()

    def _loss(self, curvature: float) -> float:
        """Standard deviation that heat flow leaves of unit white noise."""
        steps, after = self._flow(curvature)
        fields = self.probes
        for _ in range(steps):
            fields = after @ fields
        return float(np.sqrt((fields**2).mean()))


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
        """The data with white noise of equal strength, whose flat floor shows where the spectrum of the signal ends."""
        return data if self.white else self.remove(data) + self.sd * np.random.default_rng(0).standard_normal(data.shape)

    @cached_property
    def _traces(self) -> list[float]:
        """Traces of the smoothing matrices times the spatial correlation of the noise, estimated with random probes."""
        noise = self.smoothing.correlate(self.smoothing.probes, self.curvature[0])
        return [float((noise * smooth).sum() / PROBES) for smooth in self.smoothing.after(noise, STEPS)]

    def remove(self, data: np.ndarray) -> np.ndarray:
        """Denoise by smoothing every temporal cosine coefficient as strongly as its noise asks for."""
        if self.sd == 0:
            return data
        coefficients = dct(data, axis=1, norm="ortho")
        size, variance = len(data), self.sd**2 * self.time_power(data.shape[1])
        best = np.zeros_like(coefficients)
        risk = (coefficients**2).sum(axis=0) - size * variance
        for smooth, trace in zip(self.smoothing.after(coefficients, STEPS), self._traces, strict=True):
            estimate = ((coefficients - smooth) ** 2).sum(axis=0) + (2 * trace - size) * variance
            better = estimate < risk
            best[:, better], risk = smooth[:, better], np.minimum(risk, estimate)
        return idct(best, axis=1, norm="ortho")


def measure_point_noise(values: np.ndarray, smoothing: MeshSmoothing) -> PointNoise:
    """Standard deviation and colour of the noise of scattered sensors.

    Sixth differences in time give the strength of white noise, the fitted law that of correlated noise.
    """
    if values.shape[1] <= 2 * DIFFERENCES:
        raise ValueError(f"scattered data need more than {2 * DIFFERENCES} reading times, but have {values.shape[1]}")
    white = PointNoise(float(np.median(np.abs(high_differences(values, 1))) / MEDIAN_TO_SD), smoothing)
    if values.shape[1] < FEWEST_READINGS:
        return white
    wave, log_power, counts = band_spectrum(values, smoothing)
    outside = wave[:, 1] > SIGNAL_FREQUENCIES
    fits = [fit_law(wave, log_power, counts, reach, outside) for reach in (12.0, 8.0, 5.0)]
    law, scatter = min((f for f in fits if f is not None), key=lambda f: f[1], default=(None, 0.0))
    if law is None or np.abs(law[1:]).max() < WHITE or scatter > UNDERSTOOD:
        return white
    along, time = (float(b) if b >= WHITE else 0.0 for b in law[1:])
    power = np.exp(law[0] - time * ((np.arange(values.shape[1]) + 0.5) / values.shape[1]) ** 2).mean()
    # The law is the power of a wave; the pointwise variance also counts what smoothing along the mesh has taken away.
    kept = smoothing._loss(along) if along else 1.0
    noise = replace(white, sd=float(np.sqrt(power)) * kept, curvature=(along, time))
    return white if noise.white or noise.sd < NEGLIGIBLE * float(np.std(values)) else noise


def band_spectrum(values: np.ndarray, smoothing: MeshSmoothing) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wave numbers along the mesh and in time (shares of the Nyquist numbers), log-power and weight of every band."""
    energy, along = smoothing.band_energies
    count = values.shape[1]
    frequency = (np.arange(count) + 0.5) / count
    parts = smoothing.bands(dct(values, axis=1, norm="ortho"))
    power = np.array([(p**2).sum(axis=0) / e for p, e in zip(parts, energy, strict=True)])
    wave = np.column_stack([np.repeat(along, count), np.tile(frequency, len(along))])
    return wave, np.log(power.ravel() + 1e-300), np.repeat(energy, count)
