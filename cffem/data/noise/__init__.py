# SPDX-License-Identifier: MIT
"""Noise of measured data: its strength, its correlation, and values that are missing."""
