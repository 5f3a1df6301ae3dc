# SPDX-License-Identifier: MIT
"""How noisy gridded data are, whether the noise is white, and the denoised data.

The standard deviation of white noise comes from high differences, which annihilate smooth signals.
Whether noise is white shows in the cosine spectrum away from the low wave numbers that hold the
signal: log-power falls like a − Σ b_i κ_i² for noise correlated over √b_i/π grid points, and is
flat for white noise. Denoising is an empirical Wiener filter in the same basis: each coefficient is
kept in proportion to how far the mean power around it exceeds the noise power.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.fft import dctn, idctn, next_fast_len
from scipy.ndimage import uniform_filter
from scipy.special import comb

if TYPE_CHECKING:
    import sympy as sp


@dataclass(frozen=True)
class GridNoiseSettings:
    """How noise is told from signal on a grid.

    Args:
        same_step: relative scatter of steps that count as equal.
        differences: order of the differences in which a smooth signal vanishes.
        fewest_windows: differences without a gap from which their median tells the noise.
        oversubtraction: how many times the noise's power is taken from a spectrum.
        bins: groups of wave numbers along each axis, each with a median.
        signal_box: share of the wave numbers along each axis that may hold signal.
        white: curvature of the log-power below which noise counts as white.
        negligible: share of the signal below which correlated noise is not told from the
            signal's own spectrum.
        highest: share of the Nyquist number beyond which only noise is expected.
        floor_excess: log-power by which a flat floor stands out of a coloured law.
        floor_share: share of the coloured noise that a floor must have to be the noise itself.
        clean: share of a field's deviation below which noise is none.
        understood: scatter of the log-power around the law beyond which it is the signal's own
            spectrum.
        normal: median of the squared coefficients relative to their mean, in units of a coloured
            law, from which they scatter as noise does: noise has 0.41 to 0.45, the smooth tail of
            a signal mostly less than 0.3.
        everywhere: the same of the values that they make, from which these are spread over the
            whole grid: noise has 0.43 and more, fronts that stay less than 0.25.
        outlier: standard deviations from which a coefficient is signal, not noise.
        margin: share of each axis at either end that is left out, where the cosine basis has kinks.
    """

    same_step: float = 1e-6
    differences: int = 6
    fewest_windows: int = 200
    oversubtraction: float = 1.5
    bins: int = 24
    signal_box: float = 0.12
    white: float = 0.6
    negligible: float = 0.02
    highest: float = 0.7
    floor_excess: float = 3.0
    floor_share: float = 0.2
    clean: float = 1e-6
    understood: float = 0.6
    normal: float = 0.35
    everywhere: float = 0.32
    outlier: float = 4.0
    margin: float = 0.1


GRID_NOISE = GridNoiseSettings()


# The medians of |g| and of g² for a standard normal g.
MEDIAN_TO_SD = 0.6744897501960817
MEDIAN_TO_POWER = 0.4549364231195724
# How far below its maximum the log-power of a coloured law is followed; the best fit counts.
REACHES = (12.0, 8.0, 5.0)


@dataclass(frozen=True)
class Noise:
    """Noise of one field on a grid.

    Args:
        sd: pointwise standard deviation.
        curvature: decay b_i of the log-power along each axis; zeros for white noise.
    """

    sd: float
    curvature: tuple[float, ...]

    @property
    def white(self) -> bool:
        return not any(self.curvature)

    @property
    def correlation_lengths(self) -> tuple[float, ...]:
        """Correlation length along each axis in grid points."""
        return tuple(float(np.sqrt(max(b, 0.0)) / np.pi) for b in self.curvature)

    def power(self, shape: tuple[int, ...]) -> np.ndarray:
        """Mean noise power of every cosine coefficient."""
        log = np.zeros(shape)
        for axis, (length, b) in enumerate(zip(shape, self.curvature, strict=True)):
            log = log - b * reshaped((np.arange(length) + 0.5) / length, axis, len(shape)) ** 2
        power = np.exp(log)
        return self.sd**2 * power / power.mean()

    def draw(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Fresh noise of the same law."""
        white = random.standard_normal(shape)
        return (
            self.sd * white
            if self.white
            else idctn(np.sqrt(self.power(shape)) * white, norm="ortho")
        )

    def whitened(self, data: np.ndarray) -> np.ndarray:
        """The data with white noise of equal strength, whose flat floor shows where the
        spectrum of the signal ends.
        """
        if self.white:
            return data
        return self.remove(data) + self.sd * np.random.default_rng(0).standard_normal(data.shape)

    def remove(self, data: np.ndarray) -> np.ndarray:
        """Denoise by shrinking cosine coefficients."""
        if self.sd == 0:
            return data
        # Lengths with large prime factors cost several times more; a few mirrored values at the end
        # are in the cosine basis anyway.
        padded = np.pad(data, [(0, next_fast_len(n) - n) for n in data.shape], mode="symmetric")
        coefficients = dctn(padded, norm="ortho")
        energy = uniform_filter(coefficients**2, size=5, mode="mirror")
        floor = GRID_NOISE.oversubtraction * (
            self.sd**2 if self.white else self.power(padded.shape)
        )
        gain = np.clip(1 - floor / np.maximum(energy, np.finfo(float).tiny), 0, None)
        return idctn(gain * coefficients, norm="ortho")[tuple(slice(n) for n in data.shape)]


def reshaped(values: np.ndarray, axis: int, dims: int) -> np.ndarray:
    """A one-dimensional array placed along one axis."""
    shape = [1] * dims
    shape[axis] = -1
    return values.reshape(shape)


def high_differences(
    data: np.ndarray,
    axis: int,
    order: int = GRID_NOISE.differences,
    points: np.ndarray | None = None,
) -> np.ndarray:
    """Sixth differences along one axis with unit-norm weights, so that white noise keeps its
    variance.

    Args:
        data: the values.
        axis: along which they are taken.
        order: of the polynomials that vanish.
        points: where the values are, if they are not equally far apart.
    """
    if points is None or is_uniform(points):
        return np.diff(data, order, axis=axis) / np.sqrt(comb(2 * order, order))
    count = len(points) - order
    weights = divided_difference(points[np.arange(count)[:, None] + np.arange(order + 1)])
    parts = (
        np.take(data, np.arange(k, k + count), axis) * reshaped(weights[:, k], axis, data.ndim)
        for k in range(order + 1)
    )
    return sum(parts, np.zeros(1))


def is_uniform(points: np.ndarray) -> bool:
    """Whether all points of an axis are equally far apart."""
    steps = np.diff(points)
    return bool(np.ptp(steps) <= GRID_NOISE.same_step * steps.mean())


def noise_sd(
    data: np.ndarray, missing: np.ndarray | None = None, points: Sequence[np.ndarray] | None = None
) -> float:
    """Standard deviation of white noise on smooth gridded data; `points` are the values along each
    axis, by default equidistant.

    Example:
        >>> x, t = np.meshgrid(np.linspace(0, 1, 80), np.linspace(0, 1, 60), indexing="ij")
        >>> data = np.sin(6 * x - t) + 0.1 * np.random.default_rng(0).standard_normal(x.shape)
        >>> round(noise_sd(data), 2)
        0.1
    """
    usable = np.ones(data.shape, dtype=bool) if missing is None else ~missing
    whole, data = data, np.where(usable, data, 0.0)
    for axis in range(data.ndim):
        if data.shape[axis] > 2 * GRID_NOISE.differences:
            data = high_differences(data, axis, points=None if points is None else points[axis])
            count = data.shape[axis]
            usable = np.logical_and.reduce(
                [
                    np.take(usable, np.arange(k, k + count), axis)
                    for k in range(GRID_NOISE.differences + 1)
                ]
            )
    values = np.abs(data[usable])
    if missing is not None and len(values) < GRID_NOISE.fewest_windows:
        return min(noise_between_gaps(whole, missing, axis, points) for axis in range(whole.ndim))
    return float(np.median(values) / MEDIAN_TO_SD) if len(values) else 0.0


def noise_between_gaps(
    data: np.ndarray, missing: np.ndarray, axis: int, points: Sequence[np.ndarray] | None = None
) -> float:
    """Standard deviation of noise from divided differences of known values that follow each
    other along one axis.
    """
    moved, known = np.moveaxis(data, axis, -1), ~np.moveaxis(missing, axis, -1)
    places = np.arange(data.shape[axis]) if points is None else points[axis]
    lines, columns = np.nonzero(known.reshape(-1, known.shape[-1]))
    values, where = moved[known], places[columns]
    starts = np.flatnonzero(
        lines[: len(lines) - GRID_NOISE.differences] == lines[GRID_NOISE.differences :]
    )
    if not len(starts):
        return math.inf
    windows = starts[:, None] + np.arange(GRID_NOISE.differences + 1)
    return float(
        np.median(np.abs((divided_difference(where[windows]) * values[windows]).sum(axis=1)))
        / MEDIAN_TO_SD
    )


def divided_difference(windows: np.ndarray) -> np.ndarray:
    """Weights of unit norm under which polynomials vanish, for points in every row."""
    count = windows.shape[1]
    gaps = (windows[:, :, None] - windows[:, None, :]) / np.ptp(windows, axis=1)[
        :, None, None
    ] + np.eye(count)
    weights = 1 / np.prod(gaps, axis=2)
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)


def measure_noise(
    data: np.ndarray, missing: np.ndarray | None = None, points: Sequence[np.ndarray] | None = None
) -> Noise:
    """Standard deviation and colour of the noise on gridded data; only equidistant data show
    their colour.
    """
    white = Noise(noise_sd(data, missing, points), (0.0,) * data.ndim)
    irregular = points is not None and not all(is_uniform(axis) for axis in points)
    if missing is not None or irregular or min(data.shape) < 2 * GRID_NOISE.bins:
        return white
    wave, log_power, counts = binned_spectrum(data)
    outside = ~(wave < GRID_NOISE.signal_box).all(axis=1)
    fits = [fit_law(wave, log_power, counts, reach, outside) for reach in REACHES]
    coefficients, scatter = min(
        (f for f in fits if f is not None), key=lambda f: f[1], default=(None, 0.0)
    )
    if (
        coefficients is None
        or np.abs(coefficients[1:]).max() < GRID_NOISE.white
        or scatter > GRID_NOISE.understood
    ):
        return white
    curvature = tuple(float(max(b, 0.0)) for b in coefficients[1:])
    axes = enumerate(zip(data.shape, curvature, strict=True))
    decay = sum(b * reshaped(((np.arange(n) + 0.5) / n) ** 2, k, data.ndim) for k, (n, b) in axes)
    sd = float(np.sqrt(np.exp(coefficients[0] - decay).mean()))
    # The tail of a clean signal decays as well; noise worth the name is larger than that.
    coloured = Noise(sd, curvature)
    is_faint = sd < max(2 * white.sd, GRID_NOISE.negligible * float(np.std(data)))
    if is_faint or has_floor(white, coloured, wave, log_power):
        return white
    return coloured if scatters_like_noise(data, coloured) else white


def scatters_like_noise(data: np.ndarray, coloured: Noise) -> bool:
    """Whether what a coloured law describes scatters from coefficient to coefficient and from place
    to place, as noise does. The tail of a front is smooth, and sits at the front.
    """
    shape, settings = data.shape, GRID_NOISE
    axes = [reshaped((np.arange(n) + 0.5) / n, k, data.ndim) for k, n in enumerate(shape)]
    is_low = np.ones(shape, dtype=bool)
    for wave in axes:
        is_low = is_low & (wave < settings.signal_box)
    scaled = dctn(data, norm="ortho") / np.sqrt(np.maximum(coloured.power(shape), 1e-300))
    decay = sum(b * wave**2 for b, wave in zip(coloured.curvature, axes, strict=True))
    kept = ~is_low & (decay < REACHES[0]) & (np.abs(scaled) < settings.outlier)
    inner = tuple(slice(int(settings.margin * n), n - int(settings.margin * n)) for n in shape)
    energy = idctn(np.where(kept, scaled, 0.0), norm="ortho")[inner] ** 2
    powers = scaled[kept] ** 2
    return bool(
        np.median(powers) >= settings.normal * powers.mean()
        and np.median(energy) >= settings.everywhere * energy.mean()
    )


def has_floor(white: Noise, coloured: Noise, wave: np.ndarray, log_power: np.ndarray) -> bool:
    """Whether the highest wave numbers show a flat floor far above the coloured law: then the
    law is the signal's own tail.
    """
    highest = (wave > GRID_NOISE.highest).all(axis=1)
    law = 2 * np.log(coloured.sd) - float(np.log(mean_power(coloured.curvature)))
    expected = law - wave[highest] ** 2 @ np.array(coloured.curvature)
    floor = float(np.median(log_power[highest] - expected)) if highest.any() else 0.0
    return floor > GRID_NOISE.floor_excess and white.sd > GRID_NOISE.floor_share * coloured.sd


def mean_power(curvature: tuple[float, ...]) -> float:
    """Mean of exp(−Σ b κ²) over all wave numbers."""
    wave = (np.arange(200) + 0.5) / 200
    return float(np.prod([np.exp(-b * wave**2).mean() for b in curvature]))


def consistent_noises(
    noises: Mapping[sp.Expr, Noise], values: Mapping[sp.Expr, np.ndarray]
) -> dict[sp.Expr, Noise]:
    """Noises of fields that were measured together: where one has none at all, a coloured law of
    another is its spectrum.

    Args:
        noises: the noise of every field by itself.
        values: the fields.
    """
    clean = {n: m.sd <= GRID_NOISE.clean * float(np.std(values[n])) for n, m in noises.items()}
    if not any(clean.values()):
        return dict(noises)
    return {
        n: m if m.white else Noise(noise_sd(values[n]), (0.0,) * len(m.curvature))
        for n, m in noises.items()
    }


def noise_ratio(noises: Mapping[Any, Any], values: Mapping[sp.Expr, np.ndarray]) -> float:
    """Largest noise level of some fields relative to their signals."""
    variances = {name: float(np.var(v)) for name, v in values.items()}
    return max(
        m.sd / np.sqrt(max(variances[n] - m.sd**2, 1e-3 * variances[n], 1e-300))
        for n, m in noises.items()
    )


def binned_spectrum(data: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Wave numbers (share of the Nyquist number), log of the median power and number of
    coefficients of every bin.
    """
    power = dctn(data, norm="ortho") ** 2
    sizes = [
        length // GRID_NOISE.bins for length in data.shape
    ]  # the few highest wave numbers beyond the last full bin are left out
    power = power[tuple(slice(size * GRID_NOISE.bins) for size in sizes)]
    split = power.reshape([n for size in sizes for n in (GRID_NOISE.bins, size)])
    grouped = np.moveaxis(split, range(0, 2 * data.ndim, 2), range(data.ndim)).reshape(
        GRID_NOISE.bins**data.ndim, -1
    )
    medians = np.median(grouped, axis=1) / MEDIAN_TO_POWER
    centres = [
        (np.arange(GRID_NOISE.bins) + 0.5) * size / length
        for size, length in zip(sizes, data.shape, strict=True)
    ]
    wave = np.stack(np.meshgrid(*centres, indexing="ij"), axis=-1).reshape(-1, data.ndim)
    return wave, np.log(medians + 1e-300), np.full(len(medians), grouped.shape[1])


def fit_law(
    wave: np.ndarray, log_power: np.ndarray, counts: np.ndarray, reach: float, outside: np.ndarray
) -> tuple[np.ndarray, float] | None:
    """Fit log-power = a − Σ b_i κ_i² to the bins outside the signal, dropping those that
    stick out above it or lie too deep.
    """
    deep = log_power > log_power[outside].max() - reach
    features = np.column_stack([np.ones(len(wave)), -(wave**2)])
    use, coefficients = outside & deep, None
    for _ in range(30):
        if use.sum() < 8:
            return None
        weight = np.sqrt(counts[use])
        coefficients = np.linalg.lstsq(
            features[use] * weight[:, None], log_power[use] * weight, rcond=None
        )[0]
        residual = log_power - features @ coefficients
        below = residual[use & (residual < 0)]
        scale = float(np.sqrt((below**2).mean())) if len(below) else 0.0
        kept = outside & deep & (residual < 2.5 * scale + 1e-3)
        if (kept == use).all():
            break
        use = kept
    return coefficients, float(residual[use].std())
