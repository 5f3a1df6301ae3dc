# SPDX-License-Identifier: MIT
"""Running a study: its stations in order, checkpoints, progress and signals."""
