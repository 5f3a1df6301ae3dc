"""The paper's atmospheric case on your own files: daily air temperature over Uganda and East Africa
with wind, NCEP reanalysis.

    cffem fetch ncep --years 2019
    cffem run demos/study_ncep.py --out out/ncep

CFFEM_FILE names a folder with other years of the same three files. The window, the 60 days and the
anomaly are choices of this script; the paper does not state its own. Wind is part of the data, not
an unknown of a model, so that what is reported are the identification and the one-step scores;
nothing here claims a law of the atmosphere.
"""

import json
import os
from pathlib import Path

import xarray
from mpi4py import MPI

import cffem as cf
from cffem.data.readers.registry_data import cache_folder
from cffem.validation.real_data import examine, temperature_library

comm = MPI.COMM_WORLD
out = Path(os.environ.get("CFFEM_OUT", "out"))
folder = Path(os.environ.get("CFFEM_FILE", cache_folder() / "ncep"))
files = [sorted(folder.glob(f"{name}.gauss.*.nc")) for name in ("air.2m", "uwnd.10m", "vwnd.10m")]
if not all(files):
    raise cf.InputError(
        f"there are no NCEP files in {folder}; fetch them with: cffem fetch ncep --years 2019"
    )

T, wind = cf.ScalarField("T"), cf.VectorField("w", dim=2)
region = cf.Region(west=20, east=50, south=-15, north=15)
with xarray.merge(
    [xarray.open_dataset(paths[0]).isel(time=slice(60)) for paths in files], compat="override"
) as together:
    data, plane = cf.sphere_dataset(
        together,
        {T: "air", wind: ("uwnd", "vwnd")},
        region,
        quantities={"air": "temperature", "uwnd": "velocity", "vwnd": "velocity"},
        anomaly="mean",
    )

findings = examine(data, temperature_library(T, plane, wind))
if comm.rank == 0:
    print(findings)
    out.mkdir(parents=True, exist_ok=True)
    (out / "findings.json").write_text(json.dumps(findings.to_dict(), indent=1))
