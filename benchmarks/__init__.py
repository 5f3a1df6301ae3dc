# SPDX-License-Identifier: MIT
"""The benchmarks behind `cffem bench`: beside the package, found from a checkout."""
