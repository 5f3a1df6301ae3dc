# SPDX-License-Identifier: MIT
"""The report of a study: schema, summary, page, pictures, LaTeX and the table on a terminal."""
