# SPDX-License-Identifier: MIT
"""Flows: the inequality of the divergence, and bounds of Stokes problems."""
