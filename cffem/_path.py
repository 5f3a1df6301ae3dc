# SPDX-License-Identifier: MIT
"""The first module that cffem imports: `python -m cffem` shall find nothing in the current folder.

Python puts that folder first on its path, where a file `typing.py` would be taken for Python's own.
Only modules that Python has loaded itself are used here.
"""

import os
import sys


def forget_current_folder() -> None:
    """Drop the current folder from the path where Python was started by `-m cffem`."""
    words = sys.orig_argv
    module = words[words.index("-m") + 1 :][:1] if "-m" in words else []
    if module and module[0].partition(".")[0] == "cffem" and sys.path[:1] in ([""], [os.getcwd()]):
        del sys.path[0]


forget_current_folder()
