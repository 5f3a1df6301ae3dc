"""Error bounds with reasons: certificates for solutions and deletion scores."""

from cffem.bounds.certificate import Certificate, NoCertificate
from cffem.bounds.deletions import certify_deletion, certify_solution, certify_sweep
from cffem.bounds.enriched import EnrichedCertifier
from cffem.bounds.parabolic import ParabolicCertifier
from cffem.bounds.steady import DeletionBound, SteadyCertifier

__all__ = [
    "Certificate",
    "DeletionBound",
    "EnrichedCertifier",
    "NoCertificate",
    "ParabolicCertifier",
    "SteadyCertifier",
    "certify_deletion",
    "certify_solution",
    "certify_sweep",
]
