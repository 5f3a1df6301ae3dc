# SPDX-License-Identifier: MIT
"""Maps of a part of the sphere in metres, with the metric factors that make derivatives on the map
those of the sphere.

With true scale at the latitude φ₀ the map is x = R cos φ₀ (λ − λ₀), y = R (φ − φ₀), so that grids
of longitude and latitude stay tensor grids with even spacing. With κ(y) = cos φ₀ / cos φ and φ = φ₀
+ y/R the operators of the sphere are, in metres and with no approximation,

    ∇u = (κ u_x, u_y), Δu = κ² u_xx + u_yy − (tan φ / R) u_y, div v = κ ∂v₁/∂x + ∂v₂/∂y − (tan φ /
    R) v₂.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import sympy as sp

from cffem.symbols.coordinates import x, y
from cffem.symbols.errors import InputError
from cffem.symbols.expression_like import ExpressionLike
from cffem.symbols.operators import component

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


EARTH_RADIUS = 6.371e6  # metres
# Degrees of latitude within which a map may have its true scale.
FARTHEST_LATITUDE = 80.0


@dataclass(frozen=True)
class Plane:
    """A map with a true scale along one parallel and along all meridians.

    Args:
        longitude: of the origin, in degrees.
        latitude: of the origin, where the scale is true, in degrees.
        radius: of the sphere, in metres.

    Example:
        >>> import cffem as cf
        >>> u = cf.ScalarField("u")
        >>> plane = Plane(longitude=55.0, latitude=0.0)
        >>> plane.east(u)
        Derivative(u, x)/cos(1.56961230576048e-7*y)
        >>> [round(float(v)) for v in plane.place(56.0, 0.0)]
        [111195, 0]
    """

    longitude: float
    latitude: float
    radius: float = EARTH_RADIUS

    def __post_init__(self) -> None:
        if not abs(self.latitude) <= FARTHEST_LATITUDE:
            raise InputError(
                f"a map has its true scale between ±{FARTHEST_LATITUDE:g}° of latitude, not at "
                f"{self.latitude:g}°"
            )

    @property
    def scale(self) -> float:
        """Metres on the map for a radian of longitude."""
        return self.radius * math.cos(math.radians(self.latitude))

    def place(self, longitude: ArrayLike, latitude: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Map coordinates in metres of places in degrees; longitudes count from −180° to 180°
        around the origin.
        """
        turn = (np.asarray(longitude, dtype=float) - self.longitude + 180.0) % 360.0 - 180.0
        return self.scale * np.radians(turn), self.radius * np.radians(
            np.asarray(latitude, dtype=float) - self.latitude
        )

    def location(self, east: ArrayLike, north: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Longitude and latitude in degrees of map coordinates in metres."""
        longitude = self.longitude + np.degrees(np.asarray(east, dtype=float) / self.scale)
        return longitude, self.latitude + np.degrees(np.asarray(north, dtype=float) / self.radius)

    # Operators on the sphere, as terms on the map
    # -----------------------------------------------------------------------

    @property
    def angle(self) -> sp.Expr:
        """The latitude φ(y) in radians."""
        angle = sp.Float(1.0 / self.radius) * y
        return angle + sp.Float(math.radians(self.latitude)) if self.latitude else angle

    @property
    def stretch(self) -> sp.Expr:
        """κ(y), by which derivatives towards the east are multiplied."""
        true_scale = sp.Float(math.cos(math.radians(self.latitude))) if self.latitude else sp.S.One
        return true_scale / sp.cos(self.angle)

    @property
    def bend(self) -> sp.Expr:
        """tan φ / R: how fast meridians come together."""
        return sp.Float(1.0 / self.radius) * sp.tan(self.angle)

    def east(self, u: sp.Expr) -> sp.Expr:
        """∂u/∂x towards the east, per metre."""
        return self.stretch * u.diff(x)

    def north(self, u: sp.Expr) -> sp.Expr:
        """∂u/∂y towards the north, per metre."""
        return u.diff(y)

    def lap(self, u: sp.Expr) -> sp.Expr:
        """Δu, per square metre."""
        return self.stretch**2 * u.diff(x, 2) + u.diff(y, 2) - self.bend * u.diff(y)

    def slope(self, u: sp.Expr) -> sp.Expr:
        """|∇u|²."""
        return self.stretch**2 * u.diff(x) ** 2 + u.diff(y) ** 2

    def along(self, wind: ExpressionLike, u: sp.Expr) -> sp.Expr:
        """v·∇u for a velocity in m/s towards east and north."""
        return component(wind, 0) * self.east(u) + component(wind, 1) * self.north(u)

    def div(self, velocity: ExpressionLike) -> sp.Expr:
        """div v for a velocity in m/s towards east and north."""
        first, second = component(velocity, 0), component(velocity, 1)
        return self.stretch * first.diff(x) + second.diff(y) - self.bend * second
