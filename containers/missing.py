"""Print the requirements of a pyproject.toml that this Python does not satisfy: missing.py
PYPROJECT EXTRA…

What the base already has is left alone together with what that needs in turn: Debian's PyVista, for
one, uses Debian's VTK, which pip does not know and would install a second time.
"""

import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version

from pip._vendor.packaging.requirements import Requirement


def satisfied(requirement: Requirement) -> bool:
    """Whether an installed distribution meets a requirement."""
    try:
        return requirement.specifier.contains(version(requirement.name), prereleases=True)
    except PackageNotFoundError:
        return False


path, *extras = sys.argv[1:]
with open(path, "rb") as handle:
    project = tomllib.load(handle)["project"]
wanted = [
    *project["dependencies"],
    *(line for extra in extras for line in project["optional-dependencies"][extra]),
]
print(*(line.replace(" ", "") for line in wanted if not satisfied(Requirement(line))))
