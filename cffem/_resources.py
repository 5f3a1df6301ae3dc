# SPDX-License-Identifier: MIT
"""Where the shipped demos and meshes are: inside an installed package, or beside the package
in a checkout.
"""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def shared_folder(kind: str) -> Path:
    """The folder of the shipped `demos` or `meshes`.

    Example:
        >>> shared_folder("demos").name
        'demos'
    """
    for folder in (_PACKAGE / "_shared" / kind, _PACKAGE.parent / kind):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"this installation of cffem has no {kind}; reinstall it from a complete checkout"
    )


def find_benchmarks() -> None:
    """Make `benchmarks`, which stands beside the package in a checkout, importable.

    Raises:
        FileNotFoundError: cffem was installed without a checkout.
    """
    if not (_PACKAGE.parent / "benchmarks" / "bench_registry.py").is_file():
        raise FileNotFoundError(
            "the benchmarks are not part of an installed cffem; run cffem bench from a checkout"
        )
    if str(_PACKAGE.parent) not in sys.path:
        sys.path.append(str(_PACKAGE.parent))
