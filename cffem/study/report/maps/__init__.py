# SPDX-License-Identifier: MIT
"""Maps of where and when interventions change the solution."""
