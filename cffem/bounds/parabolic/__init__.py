# SPDX-License-Identifier: MIT
"""Guaranteed bounds for parabolic problems, for any time stepping."""
