# SPDX-License-Identifier: MIT
"""`python -m cffem` is the same as the command `cffem`."""

from cffem.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
