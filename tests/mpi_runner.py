"""What each rank of an `on_ranks` test runs: load the test file, call the function, abort the
whole run when it fails.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path


def main(path: str, name: str, *arguments: str) -> int:
    from mpi4py import MPI

    sys.path.insert(0, str(Path(path).parent))
    try:
        spec = importlib.util.spec_from_file_location("body_under_mpirun", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["body_under_mpirun"] = module
        spec.loader.exec_module(module)
        getattr(module, name)(MPI.COMM_WORLD, *arguments)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)
    return 0
