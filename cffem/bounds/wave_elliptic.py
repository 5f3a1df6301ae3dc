"""A guaranteed bound for u_tt + σ u_t − a Δu + c u = f, u = 0 on the boundary of a convex plane domain, with the full power of h.

Z^n ∈ V_h represents f^n − L u^n − σ v^n on V_h, where L = −aΔ + c, so u^n is the Galerkin solution of a problem with the exact
solution ω^n: L ω^n = f^n − Z^n − σ v^n. By an equilibrated flux q^n, div q^n = f^n − Z^n − c u^n − σ v^n on polynomials, and
Kobayashi's interpolation constants C_K (Aubin–Nitsche), ε^n = ω^n − u^n obeys

    ‖ε^n‖ ≤ (Z₂/a) (‖C_K (q^n + a∇u^n)‖ + ‖(h_K C_K/π) (f^n − Z^n − c u^n − σ v^n − div q^n)‖),    Z₂ = max(1, aλ₁/Λ),  Λ = aλ₁ + c,

and so do differences of levels. With I linear interpolation, s_u = (v^n − v^{n−1})/τ, s_v = (Z^n − Z^{n−1})/τ, the defects
d_u = (u^n − u^{n−1})/τ − mean v, d_v = (v^n − v^{n−1})/τ − mean Z, and β = (t − t_{n−1})(t − t_n)/2, the distances
ρ = u − Iω − β s_u and ϱ = u_t − Iv − β s_v obey

    ρ_t = ϱ + β s_v − d_u − (ε^n − ε^{n−1})/τ,     ϱ_t = −Lρ − σϱ + (f − If) − β L s_u − σβ s_v − d_v,

so N² = ‖ρ‖² + ‖L^{−1/2} ϱ‖² grows at most by the norms of the sources, and ‖u − Iu_h‖ ≤ N + ‖Iε‖ + ‖β s_u‖. Where Λ ≤ 0, or where
it is better, a part of c is taken for a source: L′ = L + (c′ − c) and (c′ − c)(u − Iu_h) is bounded by N itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import basix.ufl
import numpy as np
import ufl
from dolfinx import fem
from petsc4py import PETSc

from cffem._compat import assemble_matrix, cell_name, form
from cffem.bounds.certificate import NotCovered
from cffem.bounds.geometry import Domain
from cffem.bounds.wave_columns import Broken, Factor, Source, product
from cffem.bounds.wave_growth import evolve
from cffem.bounds.wave_majorant import Ruler, Trajectory, windows
from cffem.bounds.wave_problem import WaveOperator

# Above this share of the data the flux is not equilibrated, which rounding alone does not explain.
EQUILIBRATED = 1e-8


@dataclass(frozen=True)
class Elliptic:
    """What was measured on a trajectory, by levels or by steps.

    Attributes:
        spatial: ‖C_K (q + a∇u)‖ with oscillation, at the levels.
        rates: the same of the differences of levels over τ.
        defects: ‖d_u‖ and ‖d_v‖, shape (2, steps).
        slopes: ‖s_u‖ and ‖s_v‖.
        gradient: ‖∇s_u‖.
        missed: ‖f − If_h‖ in L2 of each step.
        fields: Z and the fluxes at the levels, which are linear in the trajectory and its source.
    """

    spatial: np.ndarray
    rates: np.ndarray
    defects: np.ndarray
    slopes: np.ndarray
    gradient: np.ndarray
    missed: np.ndarray
    fields: tuple[np.ndarray, ...]


class EllipticReconstruction:
    """Measures trajectories in one Lagrange space on a convex plane domain; the flux problem is factorised once.

    Args:
        ruler: norms of states.
        space: the space.
        domain: the mesh.
        walls: positions of the owned unknowns on the boundary.
        forced: whether there are data, for which one degree more is kept than for states.

    Attributes:
        data: where data are projected to.
    """

    def __init__(self, ruler: Ruler, space: Any, domain: Domain, walls: np.ndarray, forced: bool):
        assert domain.interpolation is not None
        self.ruler, self.space, self.domain, self.walls, self.comm = ruler, space, domain, walls, domain.mesh.comm
        mesh, degree = domain.mesh, space.element.basix_element.degree
        cell = cell_name(mesh.ufl_domain())
        self.data = Broken(domain, degree + 1 if forced else degree, 1)
        mixed = basix.ufl.mixed_element([basix.ufl.element("RT", cell, degree + 1), basix.ufl.element("DG", cell, degree)])
        fluxes = fem.functionspace(mesh, mixed)
        (q, multiplier), (p, w) = ufl.TrialFunctions(fluxes), ufl.TestFunctions(fluxes)
        u, v, f = ufl.TrialFunction(space), ufl.TestFunction(space), ufl.TrialFunction(self.data.space)

        def assembled(integrand: Any, conditions: Any = ()) -> Any:
            return assemble_matrix(form(integrand * ufl.dx, self.comm), conditions)

        self._saddle = Factor(assembled(ufl.inner(q, p) + multiplier * ufl.div(p) + ufl.div(q) * w), definite=False)
        self._to_flux, self._to_means = assembled(ufl.inner(ufl.grad(u), p)), assembled(u * w)
        scale = PETSc.Vec().createMPI((self.data.owned, None), comm=self.comm)
        scale.array[:] = self.data.spread(self.data.scale)
        self._data_to_means, self._data_to_load = assembled(f * w), assembled(f * v)
        for matrix in (self._data_to_means, self._data_to_load):
            matrix.diagonalScale(R=scale)
        scale.destroy()
        self._mass, self._stiffness = assembled(u * v), assembled(ufl.inner(ufl.grad(u), ufl.grad(v)))
        boundary = fem.locate_dofs_topological(space, 1, _exterior(mesh))
        self._represent = Factor(assembled(u * v, [fem.dirichletbc(PETSc.ScalarType(0), boundary, space)]))
        weights = domain.interpolation
        misfit, rest = Broken(domain, degree + 1, 2), self.data
        self._misfit = misfit.moments(fluxes, lambda x: ufl.split(x)[0], weights), misfit.moments(space, ufl.grad, weights)
        self._plain_gradient = misfit.moments(space, ufl.grad)
        weights = weights * domain.diameters / math.pi
        self._rest = rest.moments(fluxes, lambda x: -ufl.div(ufl.split(x)[0]), weights), rest.moments(space, lambda x: x, weights)
        self._data_weights = rest.spread(weights)

    # Measuring --------------------------------------------------------------------------------------------------------------

    def measure(
        self,
        own: WaveOperator,
        path: Trajectory,
        source: Source,
        deleted: tuple[WaveOperator, Trajectory] | None = None,
        fields: tuple[np.ndarray, ...] | None = None,
    ) -> Elliptic:
        """Measure a trajectory; collective.

        Args:
            own: σ, a and c.
            path: the trajectory.
            source: f.
            deleted: a further term on the right-hand side and the trajectory it acts on.
            fields: Z and the fluxes where they are known by linearity.
        """
        given = own.mass * path.states + own.damping * path.rates
        if deleted is not None:
            given = given + deleted[0].mass * deleted[1].states + deleted[0].damping * deleted[1].rates
        data, missed = _at_levels(source, path)
        slopes = fields[0] if fields else self._slopes(own, path, given, data)
        fluxes = fields[1] if fields else self._fluxes(own, path, -slopes - given, data)
        spatial, rates = self._spatial(own, path, -slopes - given, data, fluxes)
        change_u, change_v = np.diff(path.rates, axis=1) / path.step, np.diff(slopes, axis=1) / path.step
        defect_u = np.diff(path.states, axis=1) / path.step - (path.rates[:, 1:] + path.rates[:, :-1]) / 2
        defect_v = change_u - (slopes[:, 1:] + slopes[:, :-1]) / 2
        sizes = [self.ruler.sizes(columns) for columns in (defect_u, defect_v, change_u, change_v)]
        gradient = np.sqrt(self.ruler.squares(product(self._plain_gradient, change_u)))
        return Elliptic(spatial, rates, np.array(sizes[:2]), np.array(sizes[2:]), gradient, missed, (slopes, fluxes))

    def _slopes(self, own: WaveOperator, path: Trajectory, given: np.ndarray, data: np.ndarray | None) -> np.ndarray:
        """Z at the levels."""
        right = -own.stiffness * product(self._stiffness, path.states) - product(self._mass, given)
        if data is not None:
            right += product(self._data_to_load, data)
        right[self.walls] = 0.0
        result = self._represent.solve(right)
        result[self.walls] = 0.0
        return result

    def _fluxes(self, own: WaveOperator, path: Trajectory, known: np.ndarray, data: np.ndarray | None) -> np.ndarray:
        """Equilibrated fluxes at the levels."""
        result = np.zeros((self._saddle.matrix.getLocalSize()[0], len(path.times)), order="F")
        for window in windows(len(path.times)):
            right = product(self._to_means, known[:, window]) - own.stiffness * product(self._to_flux, path.states[:, window])
            if data is not None:
                right += product(self._data_to_means, data[:, window])
            result[:, window] = self._saddle.solve(right)
        return result

    def _spatial(
        self, own: WaveOperator, path: Trajectory, known: np.ndarray, data: np.ndarray | None, fluxes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The weighted misfits of the fluxes at the levels, and of their rates."""
        levels, rates, before, largest = [], [], None, np.zeros(3)
        for window in windows(len(path.times)):
            states, flux = path.states[:, window], fluxes[:, window]
            misfit = product(self._misfit[0], flux) + own.stiffness * product(self._misfit[1], states)
            outflow, inflow = product(self._rest[0], flux), product(self._rest[1], known[:, window])
            if data is not None:
                inflow += self._data_weights[:, None] * data[:, window]
            rest = outflow + inflow
            sizes = np.sqrt([self.ruler.squares(columns) for columns in (misfit, rest, inflow)])
            largest = np.maximum(largest, sizes.max(axis=1))
            levels.append(sizes[0] + sizes[1])
            columns = [
                part if before is None else np.concatenate([old, part], axis=1)
                for part, old in zip((misfit, rest), before or (0, 0), strict=True)
            ]
            rates.append(sum(np.sqrt(self.ruler.squares(np.diff(part, axis=1))) for part in columns) / path.step)
            before = misfit[:, -1:], rest[:, -1:]
        if data is None and largest[1] > EQUILIBRATED * (largest[0] + largest[2]):
            raise NotCovered(f"the flux is not equilibrated: its divergence is off by {largest[1]:.1e}")
        return np.concatenate(levels), np.concatenate(rates)

    def destroy(self) -> None:
        """Free matrices and factors; collective."""
        matrices = (self._to_flux, self._to_means, self._data_to_means, self._data_to_load, self._mass, self._stiffness)
        for matrix in (*matrices, *self._misfit, self._plain_gradient, *self._rest):
            matrix.destroy()
        self._saddle.destroy()
        self._represent.destroy()


def _exterior(mesh: Any) -> Any:
    from dolfinx.mesh import exterior_facet_indices

    mesh.topology.create_connectivity(1, 2)
    return exterior_facet_indices(mesh.topology)


def _at_levels(source: Source, path: Trajectory) -> tuple[np.ndarray | None, np.ndarray]:
    """Projected data at the levels, and ‖f − If_h‖ on each step."""
    missed = np.zeros(len(path.times) - 1)
    if source.vanishes:
        return None, missed
    columns = []
    for n in range(len(missed)):
        mean, slope, curve = source.polynomial(n)
        # If differs from the quadratic by its part P₂ − P₀ times the coefficient of P₂: 1 + 1/5 of its square on average.
        missed[n] = source.gap(n) + math.sqrt(1.2 * path.step * source.broken.comm.allreduce(float(curve @ curve)))
        columns.append(mean - slope + curve)
    columns.append(mean + slope + curve)
    return np.stack(columns, axis=1), missed


@dataclass(frozen=True)
class EllipticBound:
    """A bound from measured numbers.

    Attributes:
        value: of ‖u − Iu_h‖.
        steps: of ‖u − Iu_h‖ in L2 of each step.
        energy: of N in L2 of each step.
        reaction: c′.
    """

    value: float
    steps: np.ndarray
    energy: np.ndarray
    reaction: float


def elliptic_bound(
    own: WaveOperator,
    measured: Elliptic,
    step: float,
    eigenvalue: float,
    start: tuple[float, float],
    reaction: float,
    extra: Any = None,
) -> EllipticBound | None:
    """The bound with c′ = `reaction`, None where it gives none.

    Args:
        own: σ, a and c.
        measured: the measured numbers.
        step: τ.
        eigenvalue: λ₁.
        start: the initial errors of u and u_t.
        reaction: c′ ≥ c.
        extra: given Λ′ and c′, further sources of ϱ in the norm of L′^{−1/2}, in L2 of each step.
    """
    diffusive, shift = own.stiffness * eigenvalue, reaction - own.mass
    margin = diffusive + reaction
    if not margin > 0:
        return None
    root, bump = math.sqrt(step), math.sqrt(step**5 / 120)
    factor = max(1.0, diffusive / margin) / own.stiffness
    spatial, rates = factor * measured.spatial, factor * measured.rates
    linear = np.sqrt(step * (spatial[:-1] ** 2 + spatial[:-1] * spatial[1:] + spatial[1:] ** 2) / 3)
    (defect_u, defect_v), (slope_u, slope_v) = measured.defects, measured.slopes
    first = root * (rates + defect_u) + bump * slope_v
    second = measured.missed + root * defect_v + abs(own.damping) * bump * slope_v + shift * (linear + bump * slope_u)
    second = second / math.sqrt(margin) + bump * np.sqrt(own.stiffness * measured.gradient**2 + max(reaction, 0.0) * slope_u**2)
    if extra is not None:
        second = second + extra(margin, reaction)
    # δ(ρ, L′⁻¹ϱ) ≤ δ Λ′^{−1/2} ‖ρ‖ ‖L′^{−1/2}ϱ‖ ≤ δ Λ′^{−1/2} N²/2: with δ = 2|Λ| the true rate |Λ|^{1/2} of growth.
    growth = max(0.0, -own.damping) + shift / (2 * math.sqrt(margin))
    _, energy = evolve(math.hypot(start[0] + spatial[0], start[1] / math.sqrt(margin)), np.hypot(first, second), step, growth)
    steps = energy + linear + bump * slope_u
    value = sum(float(np.linalg.norm(part)) for part in (energy, linear, bump * slope_u))
    return EllipticBound(value, steps, energy, reaction)


def smallest_bound(
    own: WaveOperator, measured: Elliptic, step: float, eigenvalue: float, start: Any, extra: Any = None
) -> EllipticBound:
    """The smallest bound over some c′."""
    diffusive = own.stiffness * eigenvalue
    margin = diffusive + own.mass
    wanted = [own.mass] + [value - diffusive for value in (abs(margin), diffusive / 4, diffusive) if value > margin]
    found = [elliptic_bound(own, measured, step, eigenvalue, start, reaction, extra) for reaction in wanted]
    finite = [bound for bound in found if bound is not None and math.isfinite(bound.value)]
    if not finite:
        raise NotCovered("the solution may grow too much for a finite bound")
    return min(finite, key=lambda bound: bound.value)
