"""Noise of scattered sensors: its strength from differences in time, and a denoiser that smooths along the mesh.

In the cosine basis of time every coefficient is a field on the points plus white noise. Each is smoothed by as many steps of heat
flow along the mesh as minimise Stein's unbiased estimate of the risk; coefficients that hold only noise are set to zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.fft import dct, idct

from cffem.data.noise import DIFFERENCES, MEDIAN_TO_SD, high_differences

STEPS = (0, 1, 2, 4, 8, 16, 32, 64)
PROBES = 8


@dataclass(frozen=True)
class PointNoise:
    """White noise on scattered sensors."""

    sd: float
    laplacian: sparse.csr_matrix

    white = True
    correlation_lengths: tuple[float, ...] = ()

    def draw(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Fresh noise of the same law."""
        return self.sd * random.standard_normal(shape)

    @cached_property
    def _step(self) -> sparse.csr_matrix:
        """One step of heat flow along the mesh, I − L/λ with λ above the largest eigenvalue."""
        largest = 2 * float(self.laplacian.diagonal().max())
        return (sparse.identity(self.laplacian.shape[0]) - self.laplacian / largest).tocsr()

    @cached_property
    def _traces(self) -> list[float]:
        """Traces of the smoothing matrices, estimated with random probes."""
        probes = np.random.default_rng(0).choice([-1.0, 1.0], (self.laplacian.shape[0], PROBES))
        return [float((probes * smooth).sum() / PROBES) for smooth in self._smoothed(probes)]

    def _smoothed(self, fields: np.ndarray) -> Iterator[np.ndarray]:
        """The fields after ever more steps of heat flow."""
        done = 0
        for steps in STEPS:
            for _ in range(steps - done):
                fields = self._step @ fields
            done = steps
            yield fields

    def remove(self, data: np.ndarray) -> np.ndarray:
        """Denoise by smoothing every temporal cosine coefficient as strongly as its noise asks for."""
        if self.sd == 0:
            return data
        coefficients = dct(data, axis=1, norm="ortho")
        size, variance = len(data), self.sd**2
        best = np.zeros_like(coefficients)
        risk = (coefficients**2).sum(axis=0) - size * variance
        for smooth, trace in zip(self._smoothed(coefficients), self._traces, strict=True):
            estimate = ((coefficients - smooth) ** 2).sum(axis=0) + (2 * trace - size) * variance
            better = estimate < risk
            best[:, better], risk = smooth[:, better], np.minimum(risk, estimate)
        return idct(best, axis=1, norm="ortho")


def measure_point_noise(values: np.ndarray, laplacian: sparse.csr_matrix) -> PointNoise:
    """Standard deviation from sixth differences in time at every sensor."""
    if values.shape[1] <= 2 * DIFFERENCES:
        raise ValueError(f"scattered data need more than {2 * DIFFERENCES} reading times, but have {values.shape[1]}")
    sd = float(np.median(np.abs(high_differences(values, 1))) / MEDIAN_TO_SD)
    return PointNoise(sd, laplacian)
