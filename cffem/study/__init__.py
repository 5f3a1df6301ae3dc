"""From a study to its report."""
