"""Make the shipped meshes from their sources: `python3 meshes/make_meshes.py [FOLDER]`.

Each mesh is a text file in gmsh's MSH 4.1 format, small enough for tests and demonstrations; finer
ones come from `cffem.mesh`.
"""

import sys
from pathlib import Path

from cffem.engine.mesh.mesh_shapes import write_shape

SIZES = {
    "interval": 0.02,
    "square": 0.05,
    "l_shape": 0.1,
    "disk": 0.1,
    "annulus": 0.08,
    "channel": 0.05,
    "box": 0.2,
    "box_with_void": 0.2,
    "torus": 0.2,
}


def main(folder: Path) -> None:
    for name, h in SIZES.items():
        write_shape(name, folder / f"{name}.msh", h=h)
        print(folder / f"{name}.msh")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
