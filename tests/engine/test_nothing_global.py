"""Storing, reading and naming fields takes the same little memory on every rank: no rank ever
holds an array of all.
"""

from __future__ import annotations

import json
import os
import tracemalloc
import zipfile

import numpy as np
import pytest

pytest.importorskip("dolfinx")

from dolfinx.mesh import create_unit_square
from mpi4py import MPI

import cffem as cf
from cffem.engine.assembly.spaces import Spaces, basix_element
from cffem.engine.solve.scaling import FieldBlocks
from cffem.engine.store.exchange import RowExchange, by_hash, digest
from cffem.engine.store.shared_archive import SharedArchive, member, read_part
from cffem.engine.store.storage import read_header, read_states, write_states
from cffem.study.run.description import mesh_fingerprint


def spaces_on(comm: MPI.Comm, n: int) -> Spaces:
    mesh, u, p = create_unit_square(comm, n, n), cf.VectorField("u", dim=2), cf.ScalarField("p")
    return Spaces(
        mesh,
        {u: basix_element(mesh, u, ("Lagrange", 2)), p: basix_element(mesh, p, ("Lagrange", 1))},
    )


def work(spaces: Spaces, path: str) -> None:
    state = np.cos(np.arange(spaces.owned))
    write_states(path, spaces, [("a", state)])
    ((_, found),) = read_states(path, spaces, read_header(path, spaces.comm))
    assert np.array_equal(found, state)
    mesh_fingerprint(spaces.mesh)
    blocks = FieldBlocks(spaces)
    first = spaces.space.dofmap.index_map.local_range[0] * spaces.space.dofmap.index_map_bs
    blocks.of_columns((np.arange(first, first + spaces.owned + 9) % spaces.size).astype(np.int32))


def measured(comm: MPI.Comm, folder: str) -> None:
    """Print the largest memory that Python took on every rank beyond what was there before."""
    path = os.path.join(folder, f"{comm.size}.npz")
    work(spaces_on(comm, 4), path)  # what is made once
    spaces = spaces_on(comm, 64)
    tracemalloc.start()
    work(spaces, path)
    peaks = comm.gather(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
    if comm.rank == 0:
        print("peaks", json.dumps(peaks), flush=True)


def peaks_on(ranks: int, on_ranks, folder) -> np.ndarray:
    lines = on_ranks(ranks, measured, str(folder)).splitlines()
    (line,) = (line for line in lines if line.startswith("peaks"))
    return np.array(json.loads(line[6:]))


@pytest.mark.mpi
def test_every_rank_takes_the_same_little_memory(on_ranks, tmp_path):
    four = peaks_on(4, on_ranks, tmp_path)
    assert four.max() < 1.6 * four.mean()


@pytest.mark.mpi
@pytest.mark.slow
def test_more_ranks_take_less_memory_each(on_ranks, tmp_path):
    two, eight = (peaks_on(ranks, on_ranks, tmp_path) for ranks in (2, 8))
    assert eight.max() < 0.45 * two.max()
    assert eight.max() < 2.0 * eight.mean()


def test_an_archive_is_one_that_numpy_reads(tmp_path):
    values = np.arange(12.0).reshape(6, 2)
    archive = SharedArchive(MPI.COMM_SELF, tmp_path / "a.npz")
    archive.put("x/u", values, 0, 6)
    archive.put("empty", values[:0], 0, 0)
    archive.close()
    with np.load(tmp_path / "a.npz") as found:
        assert np.array_equal(found["x/u"], values)
        assert found["empty"].shape == (0, 2)
    assert zipfile.ZipFile(tmp_path / "a.npz").testzip() is None
    assert os.listdir(tmp_path) == ["a.npz"]


def test_archives_of_numpy_are_read_as_well(tmp_path):
    values = np.arange(6.0)
    np.savez(tmp_path / "a.npz", u=values)
    found = member(tmp_path / "a.npz", "u")
    assert np.array_equal(read_part(MPI.COMM_SELF, tmp_path / "a.npz", found, 0, 6), values)
    np.savez_compressed(tmp_path / "b.npz", u=values)
    with pytest.raises(ValueError, match="compressed"):
        member(tmp_path / "b.npz", "u")


def test_an_abandoned_archive_leaves_nothing(tmp_path):
    archive = SharedArchive(MPI.COMM_SELF, tmp_path / "a.npz")
    archive.put("u", np.zeros(3), 0, 3)
    archive.abandon()
    assert not os.listdir(tmp_path)


def parts_are_one(comm: MPI.Comm) -> None:
    """Rows go where they are sent and come back, and digests do not depend on the ranks."""
    rows = np.random.default_rng(0).integers(0, 2**63, (1000, 2)).astype(np.uint64)
    mine = rows[comm.rank :: comm.size]
    exchange = RowExchange(comm, by_hash(mine[:, 0], comm.size))
    came = exchange.send(mine)
    assert np.all(by_hash(came[:, 0], comm.size) == comm.rank)
    assert comm.allreduce(len(came)) == 1000
    assert np.array_equal(exchange.back(came), mine)
    parts = np.array_split(np.arange(70_001, dtype="<u8"), [9, 30_000][: comm.size - 1])
    whole = digest(MPI.COMM_SELF, np.arange(70_001, dtype="<u8"))
    assert digest(comm, parts[comm.rank]) == whole


@pytest.mark.mpi
def test_rows_are_exchanged(on_ranks):
    on_ranks(3, parts_are_one)
