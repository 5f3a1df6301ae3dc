# SPDX-License-Identifier: MIT
"""Error bounds with reasons: certificates for solutions, deletion scores, observables and fields that are brought along."""

from cffem.bounds.certificate import Certificate, NoCertificate
from cffem.bounds.deletions import certify_deletion, certify_solution, certify_sweep
from cffem.bounds.enriched import EnrichedCertifier
from cffem.bounds.levels import Estimates, LevelCertifier
from cffem.bounds.maxwell import MaxwellCertifier
from cffem.bounds.observable import ObservableMargin, certify_observable
from cffem.bounds.parabolic import ParabolicCertifier
from cffem.bounds.refinement import Refinement
from cffem.bounds.steady import DeletionBound, SteadyCertifier
from cffem.bounds.surrogate import certify_fields
from cffem.bounds.wave import WaveCertifier

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
