# SPDX-License-Identifier: MIT
"""From a study to its report."""
