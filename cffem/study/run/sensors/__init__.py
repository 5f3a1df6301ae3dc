# SPDX-License-Identifier: MIT
"""Studies with sensors: which fit is chosen, calibration, what sensors see of deletions."""
