"""Verdicts with error bars."""

from cffem.certify.decisions import decide

__all__ = ["decide"]
