# SPDX-License-Identifier: MIT
"""What benchmarks share: a board of figures and targets, and for those that measure times
options, a stop watch and the machine.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import process_time
from typing import Any


@dataclass
class Board:
    """Collects measurements and targets, and prints them as they come."""

    figures: dict[str, Any] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        print(text, flush=True)

    def target(self, name: str, value: float, passed: bool, wanted: str) -> None:
        """Record one figure and whether it meets its target."""
        self.figures[name] = {"value": value, "wanted": wanted, "passed": bool(passed)}
        self.line(f"  {'ok  ' if passed else 'MISS'} {name}: {value:.4g} (wanted {wanted})")
        if not passed:
            self.missed.append(name)


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """The result of some work and the processor seconds it took."""
    start = process_time()
    result = work()
    return result, process_time() - start


def machine() -> dict[str, str]:
    """What the numbers were measured on."""
    import dolfinx
    from petsc4py import PETSc

    info = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    models = [
        line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith("model name")
    ]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": str(os.cpu_count()),
        "load at the start": f"{os.getloadavg()[0]:.1f}",
        "DOLFINx": dolfinx.__version__,
        "PETSc": ".".join(map(str, PETSc.Sys.getVersion())),
        "Python": platform.python_version(),
    }


def bench_parser(
    name: str, about: str | None, kind: str, known: Iterable[str]
) -> argparse.ArgumentParser:
    """The options that these benchmarks have in common.

    Args:
        name: of the benchmark.
        about: the docstring of its module, whose first line is the description.
        kind: what can be chosen, for instance "case"; the option is `--cases`, its value a list of
            names.
        known: the names that can be chosen; all of them are the default.

    Example:
        >>> parser = bench_parser("drums", "What drums cost.", "size", ["small", "large"])
        >>> options = parser.parse_args(["--sizes", "small", "--tiny"])
        >>> options.sizes, options.tiny, str(options.out)
        (['small'], True, 'bench-drums')
    """
    names = list(known)

    def chosen(text: str) -> list[str]:
        found = [part.strip() for part in text.split(",")]
        for one in found:
            if one not in names:
                raise argparse.ArgumentTypeError(
                    f"there is no {kind} {one!r}; there are {', '.join(names)}"
                )
        return found

    parser = argparse.ArgumentParser(
        prog=f"cffem bench {name}", description=str(about).split("\n", 1)[0]
    )
    parser.add_argument(
        f"--{kind}s", type=chosen, default=names, help="names, separated by commas (default: all)"
    )
    parser.add_argument(
        "--tiny", action="store_true", help="a size that only shows that everything runs"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(f"bench-{name}"),
        help=f"folder for the results (default: bench-{name})",
    )
    return parser
