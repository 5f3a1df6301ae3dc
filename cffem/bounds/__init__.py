# SPDX-License-Identifier: MIT
"""Error bounds with reasons: certificates for solutions, deletion scores, observables and
fields that are brought along.
"""

from cffem.bounds.certificate import Certificate, DeletionBound, NoCertificate
from cffem.bounds.elliptic.steady_bounds import SteadyCertifier
from cffem.bounds.entrance import certify_deletion, certify_solution, certify_sweep
from cffem.bounds.levels.estimates import Estimates
from cffem.bounds.levels.three_levels import LevelCertifier
from cffem.bounds.observable_bounds import ObservableMargin, certify_observable
from cffem.bounds.parabolic.enriched import EnrichedCertifier
from cffem.bounds.parabolic.parabolic_bounds import ParabolicCertifier
from cffem.bounds.refining import Refinement
from cffem.bounds.supplied_fields import certify_fields
from cffem.bounds.waves.maxwell import MaxwellCertifier
from cffem.bounds.waves.scalar_waves import WaveCertifier

__all__ = [
    "Certificate",
    "DeletionBound",
    "EnrichedCertifier",
    "Estimates",
    "LevelCertifier",
    "MaxwellCertifier",
    "NoCertificate",
    "ObservableMargin",
    "ParabolicCertifier",
    "Refinement",
    "SteadyCertifier",
    "WaveCertifier",
    "certify_deletion",
    "certify_fields",
    "certify_observable",
    "certify_solution",
    "certify_sweep",
]
