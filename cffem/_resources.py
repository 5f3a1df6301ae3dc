# SPDX-License-Identifier: MIT
"""Where the shipped demos and meshes are: inside an installed package, or beside the package
in a checkout.
"""

from __future__ import annotations

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
