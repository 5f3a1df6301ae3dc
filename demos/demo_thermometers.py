# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # Twelve thermometers: an equation from few sensors
#
# A plate is watched by twelve thermometers whose readings carry 5 % of noise. Which of the terms
# $u$, $u_x$, $u_y$, $\Delta u$, $u^3$ drive its temperature, and how strongly? A regression on
# terms would need the whole field and its derivatives. Here the equation is solved for trial
# coefficients and compared with the readings where they were taken.

# +
import csv
import os
from pathlib import Path

import numpy as np
import sympy as sp
from mpi4py import MPI

import cffem as cf
from cffem import dt, lap, x, y

comm = MPI.COMM_WORLD
u = cf.ScalarField("u")
library = cf.Library(
    anchor=dt(u), terms={"u": u, "u_x": u.diff(x), "u_y": u.diff(y), "lap": lap(u), "u^3": u**3}
)
bump = sp.sin(sp.pi * x) * sp.sin(sp.pi * y)
experiment = cf.Experiment(
    mesh=cf.mesh.square(comm, h=0.15),
    elements={u: ("Lagrange", 2)},
    initial={u: 2 * bump + sp.sin(2 * sp.pi * x) * sp.sin(sp.pi * y)},
    boundary=[cf.Dirichlet(u, 0)],
    time=cf.Window(0, 1, steps=12),
)
# -

# ## Readings
#
# Somebody has measured; here a hidden truth plays that part, and its readings are written to a
# table as a logger would write it. The term $u_y$ is not there.

# +
truth = {"u": 0.6, "u_x": 0.5, "lap": 0.02, "u^3": -0.8}
generator = np.random.default_rng(7)
points = generator.uniform(0.1, 0.9, (12, 2))
world = cf.Model(library, truth, experiment)
clean = world.observation(cf.Sensors(points, [u])).values(world.factual)
noise = 0.05 * float(np.sqrt(np.mean(clean**2)))
values = (clean + noise * generator.normal(size=len(clean))).reshape(12, -1)

folder = Path(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "thermometers.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["sensor", "x", "y", "t", "field", "value", "noise"])
        for number, (point, row) in enumerate(zip(points, values, strict=True), 1):
            for time, value in zip(world.times, row, strict=True):
                table.writerow([f"T{number}", *point, time, "u", value, noise])
comm.barrier()
readings = cf.Dataset.from_readings(folder / "thermometers.csv")
# -

# ## Can these sensors tell at all?
#
# Before any reading counts, the sensitivities $\mathcal O\,\partial u/\partial\alpha_j$ in units of
# the noise say what twelve thermometers can know: all five coefficients, and how well.

guess = cf.Model(library, {"u": 0.1, "u_x": 0.1, "u_y": 0.1, "lap": 0.05, "u^3": -0.1}, experiment)
design = guess.sensitivities(readings.observation)
if comm.rank == 0:
    print(f"rank {design.rank()} of {len(design.names)}, coherence {design.coherence():.2f}")
    for name, spread in design.deviations().items():
        print(f"  {name:<4} can be known to ± {spread:.3g}")

# ## The fit
#
# Each step solves the equation once and its tangent equation once; a step whose solve fails is
# shortened. The residuals are tested: are they what noise leaves?

fit = cf.calibrate(library, experiment, readings, start=guess.coefficients)
if comm.rank == 0:
    print(f"χ² = {fit.chi2:.1f} of {fit.readings} readings, {fit.iterations} iterations")
    for name, (low, high) in fit.intervals.items():
        print(f"  {name:<4} {fit.coefficients[name]:+.4f}   95 %: {low:+.4f} to {high:+.4f}")
    print(fit.tests.misfit or "the residuals are what the noise explains")

# ## Which terms do the data need?
#
# Deleting a term and fitting the others again is a test that the data decide. Beside it stands how
# many standard deviations of what is measured the deletion changes with the other coefficients
# left alone.

# +
changes = fit.model.observation_deletions(readings.observation)
tests = {name: fit.without(name) for name in library.names}
if comm.rank == 0:
    for name, test in tests.items():
        print(
            f"  {name:<4} δ = {changes[name].score:8.1f} standard deviations, Δχ² = "
            f"{test.delta_chi2:8.1f}, p = {test.p_value:.2g}"
            f"  {'needed' if test.needed else 'not needed'}"
        )
# -

# ## Where would a thirteenth thermometer help most?

grid = np.stack(np.meshgrid(np.linspace(0.1, 0.9, 9), np.linspace(0.1, 0.9, 9)), -1)
candidates = cf.Sensors(grid.reshape(-1, 2), [u], noise=noise)
choice = cf.best_sensors(fit.model, candidates, 1, present=readings.observation)
if comm.rank == 0:
    print(f"the next thermometer: at {choice.observation.points[0]}")

# Twelve points know the equation: every interval holds the truth, the four terms that are there are
# needed, and the one that is not is not.

assert design.rank() == 5
assert all(low <= truth.get(name, 0.0) <= high for name, (low, high) in fit.intervals.items())
assert not fit.tests.misfit
assert {name for name, test in tests.items() if test.needed} == set(truth)
assert choice.design.deviations()["u"] < fit.deviations["u"]
