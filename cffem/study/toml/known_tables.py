# SPDX-License-Identifier: MIT
"""Known fields in a study file: `[known.k]` with values, by subdomain if need be, or with a file of
measurements.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cffem.study.toml.named_data import read_dataset
from cffem.study.toml.study_keys import StudyFileError, Table, is_number
from cffem.symbols.fields import Field, ScalarField, VectorField
from cffem.symbols.known import Known
from cffem.symbols.parser.parse import parse

if TYPE_CHECKING:
    from mpi4py import MPI

MOST_KNOWN, MOST_PARTS = 50, 200
# Keys of a table that describes a file of measurements.
FILE = ("file", "array", "coordinates", "points", "times", "period")


def declared_known(table: Table) -> dict[str, Known]:
    """The known fields of a study: scalars, or of the size that `vector` or `tensor` says."""
    found: dict[str, Known] = {}
    for name in table.entries(most=MOST_KNOWN):
        entry = table.table(name)
        with table.naming(name):
            if "vector" in entry and "tensor" in entry:
                raise StudyFileError(
                    f"{table.file}: {table.key(name)} is a vector or a tensor, not both"
                )
            size: Any = None
            if "vector" in entry:
                size = entry.whole("vector", most=3)
            if "tensor" in entry:
                size = (entry.whole("tensor", most=3),) * 2
            found[name] = Known(name, dim=size)
    return found


class KnownTables:
    """Reads the values of known fields.

    Args:
        known: the declared ones by name.
        folder: the folder of the study file.
        anywhere: whether files may lie elsewhere.
        comm: the communicator; rank 0 reads files.
    """

    def __init__(self, known: Mapping[str, Known], folder: Path, anywhere: bool, comm: MPI.Comm):
        self.known, self.folder, self.anywhere, self.comm = known, folder, anywhere, comm

    def values(self, table: Table, own: Table | None = None) -> dict[Known, object]:
        """The values of all known fields, those of one experiment before those of the study."""
        found: dict[Known, object] = {}
        for place, shapes in ((table, True), (own, False)):
            for name in place.entries(most=MOST_KNOWN) if place is not None else ():
                if name not in self.known:
                    raise StudyFileError(
                        f"{table.file}: {place.key(name)}: no known field is called {name!r}; "  # type: ignore[union-attr]
                        f"declare it as [known.{name}]"
                    )
                value = self._value(place, name, shapes)  # type: ignore[arg-type]
                if value is not None:
                    found[self.known[name]] = value
        return found

    def _value(self, table: Table, name: str, shapes: bool) -> object:
        content = table.get(name)
        if not isinstance(content, dict):
            with table.naming(name):
                return self._given(content, table, name)
        entry = table.table(name)
        if shapes:
            entry.get("vector", None), entry.get("tensor", None)
        if "file" in entry:
            return self._measured(entry, name)
        if "values" not in entry and shapes:
            entry.done()
            return None  # each experiment says it
        with entry.naming("values"):
            value = self._given(entry.get("values"), entry, "values")
        entry.done()
        return value

    def _given(self, value: object, table: Table, key: str) -> object:
        """A number, an expression, a list of them, or one of these for each subdomain."""
        if isinstance(value, dict):
            if not 1 <= len(value) <= MOST_PARTS:
                raise table.refuse(key, f"one to {MOST_PARTS} subdomains with their values")
            return {
                part: self._formula(inner, table, key, depth=2) for part, inner in value.items()
            }
        return self._formula(value, table, key, depth=2)

    def _formula(self, value: object, table: Table, key: str, depth: int) -> object:
        if isinstance(value, list) and depth and 1 <= len(value) <= 3:
            return tuple(self._formula(part, table, key, depth - 1) for part in value)
        if isinstance(value, str):
            return parse(value)
        if not is_number(value):
            raise table.refuse(key, "a number, an expression in quotes, or a list of them")
        return value

    def _measured(self, entry: Table, name: str) -> object:
        """The dataset of a file, whose only field is the known one."""
        known = self.known[name]
        if len(known.shape) > 1:
            raise StudyFileError(f"{entry.file}: {entry.where}: a tensor has no file of values")
        field: Field = VectorField(name, known.shape[0]) if known.shape else ScalarField(name)
        content = {key: entry.get(key) for key in FILE if key in entry and key != "array"}
        content["fields"] = {name: entry.get("array", name)}
        entry.done()
        described = Table(content, entry.file, entry.where)
        return read_dataset(described, {name: field}, self.folder, self.anywhere, self.comm)
