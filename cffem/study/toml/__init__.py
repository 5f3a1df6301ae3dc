# SPDX-License-Identifier: MIT
"""Studies written as TOML: data, never code."""
