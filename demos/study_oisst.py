"""The paper's ocean case on your own file: daily sea-surface temperature of the western Indian
Ocean, NOAA OISST.

    cffem fetch oisst --years 2019
    cffem run demos/study_oisst.py --out out/oisst

CFFEM_FILE names another file with a variable `sst` (degC) on longitude, latitude and time. The
window, the 90 days, the anomaly and the mesh size are choices of this script; the paper does not
state its own. Nothing here claims a law of the ocean.
"""

import json
import os
from pathlib import Path

from mpi4py import MPI

import cffem as cf
from cffem.data.readers.registry_data import cache_folder
from cffem.validation.real_data import examine, temperature_library

comm = MPI.COMM_WORLD
out = Path(os.environ.get("CFFEM_OUT", "out"))
file = os.environ.get("CFFEM_FILE", cache_folder() / "oisst" / "sst.day.mean.2019.nc")

T = cf.ScalarField("T")
region = cf.Region(west=40, east=65, south=-15, north=10, start="2019-01-01", end="2019-03-31")
if "CFFEM_FILE" in os.environ:
    region = cf.Region(region.west, region.east, region.south, region.north)
data, plane = cf.sphere_dataset(file, {T: "sst"}, region, anomaly="mean")
library = temperature_library(T, plane)

findings = examine(data, library)
if comm.rank == 0:
    print(findings)
    out.mkdir(parents=True, exist_ok=True)
    (out / "findings.json").write_text(json.dumps(findings.to_dict(), indent=1))

days = data.coordinates[cf.t]
width = float(data.coordinates[cf.x][-1] - data.coordinates[cf.x][0])
experiment = cf.Experiment(
    mesh=cf.region_mesh(comm, data, h=width / 25),
    elements={T: ("Lagrange", 1)},
    time=cf.Window(float(days[0]), float(days[-1]), steps=len(days) - 1),
)
study = cf.Study(
    library, experiment, data=data, certification=cf.Certification(epsilon=0.05, relative=True)
)
report = study.run(out)
if comm.rank == 0:
    print(report)
