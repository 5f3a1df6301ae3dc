# SPDX-License-Identifier: MIT
"""Coefficients from sensor readings, by fits that run models, and where to measure next."""
