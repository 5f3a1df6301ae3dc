"""Error bounds with reasons: certificates for solutions and deletion scores."""

from cffem.bounds.certificate import Certificate, NoCertificate
from cffem.bounds.steady import DeletionBound, SteadyCertifier, certify_deletion, certify_solution

__all__ = ["Certificate", "DeletionBound", "NoCertificate", "SteadyCertifier", "certify_deletion", "certify_solution"]
