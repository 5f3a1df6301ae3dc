# SPDX-License-Identifier: MIT
"""Reading measured data: tables, Zarr, velocimetry, fields on the sphere and public data sets."""
