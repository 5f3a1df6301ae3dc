# SPDX-License-Identifier: MIT
"""Reports of named interventions and pairs of terms."""
