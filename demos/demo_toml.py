# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: light
# ---

# # A study as a file: annulus.toml
#
# A study need not be a program. `annulus.toml`, beside this script, describes one as data: fields,
# terms, coefficients, a mesh, conditions, a tolerance and an observable. From a shell
#
# ```
# cffem run annulus.toml --out results
# cffem report results
# ```
#
# runs it and draws its report again. A study file from a stranger can compute but never run code:
# terms are read by a parser that knows mathematics only, meshes are read as data, and paths stay
# inside the study's folder.

# +
import os

from mpi4py import MPI

from cffem._resources import shared_folder
from cffem.study.toml.study_file import read_study
from cffem.symbols.errors import InputError

comm = MPI.COMM_WORLD
path = shared_folder("demos") / "annulus.toml"
if comm.rank == 0:
    print(path.read_text())
# -

# From Python the same file gives the same study:

# +
study = read_study(path, comm)
report = study.run(os.environ.get("CFFEM_OUT", "out"))
if comm.rank == 0:
    print(report)
# -

# The draught matters at this tolerance and the loss does not. The file of the mesh says that the
# annulus is round: the error bars contain the gap between its circles and the meshed polygon, and
# are estimated for that reason.
#
# A mistake is answered in one sentence that names the file, the key and what was expected:

# +
try:
    read_study(path, comm, overrides=["certification.epsilom=1e-3"])
except InputError as error:
    message = str(error)
if comm.rank == 0:
    print(message)

assert "epsilon" in message
assert report.terms["draught"].decision == "relevant"
assert report.terms["loss"].decision == "irrelevant"
assert report.terms["loss"].certificate == "estimated"
assert set(report.sections["observables"]) == {"heat"}
# -
