# SPDX-License-Identifier: MIT
"""Solving: meshes, spaces, one form per term, time stepping, factual and deleted problems,
scores and observables.
"""
