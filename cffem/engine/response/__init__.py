# SPDX-License-Identifier: MIT
"""How a solution responds to its terms: tangents, adjoints, residual scores and the gap
theorems.
"""
