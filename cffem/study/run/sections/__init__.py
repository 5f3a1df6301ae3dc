# SPDX-License-Identifier: MIT
"""The sections of a report, each made of facts."""
