# SPDX-License-Identifier: MIT
"""Estimated bounds from three levels of discretisation, and refinement until decided."""
