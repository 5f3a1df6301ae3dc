# SPDX-License-Identifier: MIT
"""What a user declares: libraries, systems, experiments, conditions, constraints,
interventions and observables.
"""
