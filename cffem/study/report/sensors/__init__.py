# SPDX-License-Identifier: MIT
"""What a page shows about sensors."""
