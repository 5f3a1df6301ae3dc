# SPDX-License-Identifier: MIT
"""Units of fields, coordinates and coefficients: optional, and checked where they are given."""
