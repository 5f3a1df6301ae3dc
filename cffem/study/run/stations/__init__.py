# SPDX-License-Identifier: MIT
"""The stations of a study, one file each; every station turns work into facts, and the report
is made of facts.
"""
