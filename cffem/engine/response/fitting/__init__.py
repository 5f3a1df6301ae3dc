# SPDX-License-Identifier: MIT
"""The parts of a calibration: residuals and their derivative, tests of residuals, profiles."""
