# SPDX-License-Identifier: MIT
"""The operator-evaluation design y = Aβ + η of the anchored regression, and the paper's diagnostics
of it.

A `Design` never holds A: it holds block Grams (see `gram`) and answers from them which terms are
excited, coherent, aliased or identifiable, and which further experiment would help. Columns are
normalised to ‖A_j‖²/n = 1 wherever the paper does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import sympy as sp

from cffem.data.rows.row_blocks import RowBlock, RowSource
from cffem.design import aliasing, spectrum
from cffem.design.cone import Bracket, restricted_eigenvalue
from cffem.design.design_parts import (
    DESIGN,
    FIELD_TOLERANCE,
    Addition,
    Origin,
    ProbedTerms,
    relabelled,
)
from cffem.design.gram import BlockGrams, Communicator, fold
from cffem.symbols.errors import InputError
from cffem.symbols.problem.library import CandidateTerms


class Design:
    """An anchored regression as block Grams; build one with `from_fields` or `from_matrix`.

    Example:
        >>> import numpy as np
        >>> design = Design.from_matrix(
        ...     np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]),
        ...     np.array([1.0, 2.0, 3.0]),
        ...     ["one", "x"],
        ... )
        >>> design.rank()
        2
    """

    def __init__(
        self,
        names: Sequence[str],
        grams: BlockGrams,
        library: CandidateTerms | None = None,
        notes: Mapping[str, Any] | None = None,
    ) -> None:
        if len(names) != grams.columns or len(set(names)) != len(names):
            raise InputError(
                f"a design needs one distinct name per column, but has {grams.columns} columns "
                f"and names {list(names)}"
            )
        self.names = tuple(str(name) for name in names)
        self.grams = grams
        self.library = library
        self.notes = dict(notes or {})
        self.wider: Design | None = None
        self.origin: Origin | None = None

    @classmethod
    def from_matrix(
        cls,
        A: np.ndarray,
        y: np.ndarray,
        names: Sequence[str],
        *,
        blocks: int = DESIGN.matrix_blocks,
        column_noise: np.ndarray | None = None,
        effective: float | None = None,
    ) -> Design:
        """A design from a matrix somebody else has built.

        Args:
            A: n × m matrix of term evaluations.
            y: n anchor values.
            names: of the columns.
            blocks: number of contiguous row blocks for resampling.
            column_noise: standard deviation of the errors in each column of A, if they are known
                (independent from row to row).
            effective: number of independent rows, if the rows overlap; default n.
        """
        A, y = np.asarray(A, dtype=float), np.asarray(y, dtype=float)
        if A.ndim != 2 or y.shape != (A.shape[0],):
            raise InputError(
                f"from_matrix needs a matrix and one y per row, but got shapes {A.shape} and "
                f"{y.shape}"
            )
        if not (np.isfinite(A).all() and np.isfinite(y).all()):
            raise InputError(
                "from_matrix needs finite numbers, but A or y contains NaN or infinity"
            )
        parts = [
            part for part in np.array_split(np.arange(len(y)), min(blocks, len(y))) if len(part)
        ]
        share = 1.0 if effective is None else effective / len(y)
        grams = fold(
            RowBlock(A[p], y[p], block=k, effective=share * len(p)) for k, p in enumerate(parts)
        )
        if column_noise is not None:
            sd = np.broadcast_to(np.asarray(column_noise, dtype=float), (A.shape[1],))
            noise = np.array([len(p) * np.diag(np.r_[0.0, sd**2]) for p in parts])
            grams = BlockGrams(**{**vars(grams), "noise": noise})
        return cls(names, grams)

    @classmethod
    def from_fields(
        cls,
        library: CandidateTerms,
        sources: Iterable[RowSource] | RowSource,
        kind: str = "weak",
        *,
        comm: Communicator | None = None,
    ) -> Design:
        """The design of a library evaluated on solutions or measured data.

        Args:
            library: candidate terms and anchor.
            sources: one or several objects with `rows(library, kind)`; several experiments are
                stacked.
            kind: `weak` (test functions carry the derivatives) or `strong` (terms evaluated at
                points).
            comm: MPI communicator over which the rows are distributed; Grams are summed over its
                ranks. Default: the sources' own.
        """
        if kind not in ("weak", "strong"):
            raise InputError(f"the kind of a design is 'weak' or 'strong', not {kind!r}")
        if hasattr(library, "anchors"):
            raise InputError(
                "a design is of one equation; make one for each of a System: "
                "Design.from_fields(system.equations[u], data)"
            )
        given: list[Any] = (
            [sources] if hasattr(sources, "rows") else list(sources)  # type: ignore[arg-type]
        )
        if not given:
            raise InputError("a design needs at least one solution or dataset")
        shared = comm is None
        if comm is None:
            comm = next(
                (source.comm for source in given if getattr(source, "comm", None) is not None), None
            )
        notes: dict[str, Any] = {"kind": kind}
        measured = [hasattr(source, "probes") for source in given]
        if len(set(measured)) > 1:
            raise InputError(
                "a design is made of solutions or of measured data, not of both, because only "
                "data carry noise; make one of each"
            )
        probes = given[0].probes(library) if kind == "weak" and measured[0] else {}
        wider = ProbedTerms(library.anchor, {**library.terms, **probes}) if probes else library

        def blocks() -> Iterable[RowBlock]:
            for number, source in enumerate(given):
                # Data that every rank holds in full must be counted once, not once per rank.
                everywhere = shared and getattr(source, "comm", None) is None
                if everywhere and comm is not None and comm.rank > 0:
                    continue
                for block in source.rows(wider, kind):
                    yield relabelled(block, number) if len(given) > 1 else block
                found = dict(getattr(source, "notes", {}) or {})
                notes.setdefault("sources", []).append(found)
                notes["tolerance"] = max(
                    notes.get("tolerance", 0.0), found.get("tolerance", FIELD_TOLERANCE[kind])
                )

        notes["projected"] = any(bool(getattr(source, "projected", False)) for source in given)
        full = cls(tuple(wider.terms), fold(blocks(), comm), library, notes)
        made = full.narrowed(tuple(library.terms)) if probes else full
        made.origin = Origin(library, tuple(given), kind)
        return made

    # ----------------------------------------------------------------------------------------------
    # Stacking and cutting

    def __add__(self, other: Design) -> Design:
        """Stack two designs of the same terms by adding their Grams."""
        if self.names != other.names:
            raise InputError(
                f"only designs of the same terms can be stacked, not {self.names} with "
                f"{other.names}"
            )
        pairs = [(0, self), (1, other)]
        labels = tuple((k, label) for k, design in pairs for label in design.grams.labels)

        def join(key: str) -> np.ndarray | None:
            parts = [getattr(design.grams, key) for _, design in pairs]
            return None if any(part is None for part in parts) else np.concatenate(parts)

        noise = [
            g.noise if g.noise is not None else np.zeros_like(g.plain)
            for g in (self.grams, other.grams)
        ]
        has_noise = self.grams.noise is not None or other.grams.noise is not None
        replicates = [design.grams.replicates for _, design in pairs]
        counts = {None if r is None else r.shape[1] for r in replicates}
        comparable = len(counts) == 1 and None not in counts
        grams = BlockGrams(
            labels,
            join("plain"),
            join("denoised"),
            np.concatenate(noise) if has_noise else None,
            join("weight"),
            join("rows"),
            join("effective"),
            join("sample"),
            np.concatenate(replicates) if comparable else None,
        )
        tolerance = max(
            design.notes.get("tolerance", aliasing.ROUNDING) for design in (self, other)
        )
        notes = {**self.notes, "sources": self.sources + other.sources, "tolerance": tolerance}
        stacked = Design(self.names, grams, self.library, notes)
        if self.wider is not None and other.wider is not None:
            common = [name for name in self.wider.names if name in other.wider.names]
            stacked.wider = self.wider.select(common) + other.wider.select(common)
        return stacked

    def select(self, names: Iterable[str]) -> Design:
        """The design with some of its columns only."""
        names = list(names)
        return Design(
            names,
            self.grams.select(self.names.index(name) for name in names),
            self.library,
            self.notes,
        )

    def with_known(self, known: Mapping[str, float]) -> Design:
        """The design of the other terms, where the coefficients of some are known and their part is
        taken off the anchor.

        Example:
            >>> A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
            >>> design = Design.from_matrix(A, A @ [2.0, 3.0], ["a", "b"]).with_known({"a": 2.0})
            >>> design.names, design.grams.total()[0, 1] / design.grams.total()[1, 1]
            (('b',), np.float64(3.0))
        """
        self.mask(known)
        numbers = {self.names.index(name): float(value) for name, value in known.items()}
        names = [name for name in self.names if name not in known]
        if not names:
            raise InputError("all coefficients are given, so that nothing is left to screen for")
        rest = Design(names, self.grams.with_known(numbers), self.library, self.notes)
        rest.wider = None if self.wider is None else self.wider.with_known(known)
        if self.origin is not None:
            rest.origin = replace(self.origin, known={**self.origin.known, **known})
        return rest

    def narrowed(self, names: Sequence[str]) -> Design:
        """The design of some terms that remembers the wider design, against which a screen
        checks for missing terms.
        """
        inner = self.select(names)
        sigma = self.normalised_gram()
        kept = [self.names.index(name) for name in names]
        for j in (j for j in range(len(self.names)) if self.names[j] not in set(names)):
            block = sigma[np.ix_(kept, kept)]
            left = (
                sigma[j, j]
                - sigma[j, kept] @ np.linalg.lstsq(block, sigma[kept, j], rcond=1e-12)[0]
            )
            if left > DESIGN.independent:
                kept.append(j)
        inner.wider = self.select([self.names[j] for j in kept])
        return inner

    # ----------------------------------------------------------------------------------------------
    # Sizes and norms

    @property
    def sources(self) -> list[dict[str, Any]]:
        """What each dataset or solution noted while making its rows (noise level, widths, …)."""
        return list(self.notes.get("sources", []))

    @property
    def rows(self) -> int:
        """Number of rows folded in."""
        return int(self.grams.rows.sum())

    @property
    def effective_rows(self) -> float:
        """Number of independent rows (overlapping test functions count less)."""
        return float(self.grams.effective.sum())

    @cached_property
    def column_norms(self) -> np.ndarray:
        """√(‖A_j‖²/n) of every column."""
        return np.sqrt(np.diag(self.grams.total())[1:] / self.grams.weight.sum())

    @cached_property
    def scale(self) -> np.ndarray:
        """Column norms with ones for columns that vanish."""
        return np.where(self.column_norms > 0, self.column_norms, 1.0)

    def normalised_gram(self, view: str = "plain") -> np.ndarray:
        """Σ = AᵀA/n with columns scaled to ‖A_j‖²/n = 1."""
        total = self.grams.total(view)[1:, 1:] / self.grams.weight.sum()
        return total / np.outer(self.scale, self.scale)

    # ----------------------------------------------------------------------------------------------
    # The paper's diagnostics

    def coherence(self) -> float:
        """μ(A) = max_{j≠k} |⟨A_j, A_k⟩| / (‖A_j‖ ‖A_k‖); high coherence alone is no obstruction."""
        sigma = np.abs(self.normalised_gram())
        np.fill_diagonal(sigma, 0.0)
        return float(sigma.max()) if len(sigma) > 1 else 0.0

    def _null(self, tolerance: float | None) -> np.ndarray:
        """Null vectors of the normalised, noise-corrected Gram."""
        values, vectors = np.linalg.eigh(self.normalised_gram("corrected"))
        if tolerance is not None:
            return vectors[:, values <= tolerance]
        return vectors[:, values <= self.noise_energy(vectors)]

    def _tied(self, tolerance: float | None) -> aliasing.Members:
        """Terms that null vectors tie: all null vectors, or short ones where there are few
        independent rows per term.
        """
        noisy = self.grams.noise is not None and tolerance is None
        if noisy and self.effective_rows < aliasing.LIMITS.rows * len(self.names):
            return aliasing.short_groups(self.normalised_gram("corrected"), self.noise_energy)
        known = self.grams.noise is None and tolerance is None
        return aliasing.null_groups(
            self._null(tolerance), DESIGN.exact_leakage if known else DESIGN.noisy_leakage
        )

    def noise_energy(self, directions: np.ndarray) -> np.ndarray:
        """Energy per row that rounding, discretisation and noise can leave in directions
        (columns, normalised coefficients).
        """
        noise = np.zeros((len(self.names),) * 2)
        if self.grams.noise is not None:
            noise = (
                self.grams.noise.sum(axis=0)[1:, 1:]
                / self.grams.weight.sum()
                / np.outer(self.scale, self.scale)
            )
        base = float(self.notes.get("tolerance", aliasing.ROUNDING))
        return aliasing.noise_tolerance(noise, directions, self.effective_rows) + base * (
            directions**2
        ).sum(axis=0)

    def rank(self, tolerance: float | None = None) -> int:
        """Number of directions of coefficient space that the data excite above rounding and noise.

        Args:
            tolerance: share of a column's energy below which a direction counts as not excited, for
                rows with errors that the design does not know of (a coarse mesh, say); default:
                rounding, plus the noise where the source knows it.
        """
        return len(self.names) - self._null(tolerance).shape[1]

    def alias_groups(
        self, symbols: Mapping[str, sp.Symbol] | None = None, tolerance: float | None = None
    ) -> list[aliasing.AliasGroup]:
        """Groups of terms that this experiment cannot tell apart, each with the combination that it
        does identify.

        Args:
            symbols: symbols for the coefficients of some terms; `alpha_NAME` for the others.
            tolerance: see `rank`.

        Example:
            >>> x = np.linspace(0.1, 3, 50)
            >>> design = Design.from_matrix(
            ...     np.column_stack([np.sin(x), -4 * np.sin(x)]), -np.sin(x), ["u", "lap"]
            ... )
            >>> design.alias_groups()[0].identified
            -4*alpha_lap + alpha_u
        """
        total = self.grams.total("corrected") / self.grams.weight.sum()
        sigma = total[1:, 1:] / np.outer(self.scale, self.scale)
        groups = aliasing.alias_groups(
            self._tied(tolerance), sigma, total[1:, 0] / self.scale, self.scale, self.names, symbols
        )
        return [group.named(self.notes.get("invariances", {})) for group in groups]

    def deviations(self) -> dict[str, float]:
        """Standard deviations of the coefficients by least squares, for rows in units of their
        noise; infinite where a coefficient is not identified.

        Example:
            >>> design = Design.from_matrix(
            ...     np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 1.0]]), np.zeros(2), ["a", "b", "c"]
            ... )
            >>> design.deviations()
            {'a': 0.5, 'b': inf, 'c': inf}
        """
        free = self.rank_mask()
        total = self.grams.total()[1:, 1:] / np.outer(self.scale, self.scale)
        inverse = np.linalg.pinv(total, rcond=aliasing.ROUNDING**1.5, hermitian=True)
        spread = np.sqrt(np.maximum(np.diag(inverse), 0.0)) / self.scale
        return {
            name: float(value) if kept else float("inf")
            for name, value, kept in zip(self.names, spread, free, strict=True)
        }

    def rank_mask(self) -> np.ndarray:
        """Whether each coefficient is identified by itself: no null vector has a part along it."""
        tied = {term for group in self.alias_groups() for term in group.terms}
        return np.array([name not in tied for name in self.names])

    def restricted_eigenvalue(self, s: int, seconds: float = 8.0) -> Bracket:
        """Bracket of the empirical restricted-eigenvalue constant κ̂(A; s)."""
        return restricted_eigenvalue(self.normalised_gram(), s, seconds)

    def restricted_eigenvalue_by_rows(
        self, s: int, counts: Sequence[int], repeats: int = 3
    ) -> dict[int, list[Bracket]]:
        """κ̂ of random subsets of rows (from the sample the design keeps): how many sampled
        rows are enough.
        """
        return spectrum.restricted_eigenvalue_by_rows(
            self.grams.sample[:, 1:], s, list(counts), repeats
        )

    def sparse_eigenvalues(self, size: int) -> spectrum.SparseEigenvalues:
        """Extreme eigenvalues and the worst condition number over all supports of one size."""
        return spectrum.sparse_eigenvalues(self.normalised_gram(), size)

    def irrepresentability(
        self, support: Sequence[str], signs: Sequence[float] | None = None
    ) -> float:
        """‖Σ_{S^c S} Σ_SS⁻¹ sign(β_S)‖_∞ for a support given by names."""
        order = (
            None
            if signs is None
            else np.array(
                [dict(zip(support, signs, strict=True))[n] for n in self.names if n in set(support)]
            )
        )
        return spectrum.irrepresentability(self.normalised_gram(), self.mask(support), order)

    def selected_gram(self, support: Sequence[str]) -> spectrum.SelectedGram:
        """λ_min, λ_max and condition number of the Gram of the normalised columns of a support."""
        return spectrum.selected_gram(self.normalised_gram(), self.mask(support))

    def mask(self, support: Iterable[str]) -> np.ndarray:
        """Boolean mask of a support given by names."""
        unknown = set(support) - set(self.names)
        if unknown:
            raise InputError(
                f"the design has no terms {sorted(unknown)}; it has {list(self.names)}"
            )
        return np.isin(self.names, list(support))

    # ----------------------------------------------------------------------------------------------
    # Which experiment next

    def spectrum_growth(self, other: Design) -> np.ndarray:
        """Increase of every eigenvalue of the unaveraged Gram when an experiment is added;
        never negative (Loewner).
        """
        before = self.grams.total()[1:, 1:]
        after = before + other.grams.total()[1:, 1:]
        norms = np.sqrt(np.diag(after))
        scale = np.outer(norms, norms)
        scale[scale == 0] = 1.0
        return np.linalg.eigvalsh(after / scale) - np.linalg.eigvalsh(before / scale)

    def additions(self, candidates: Mapping[str, Design]) -> list[Addition]:
        """What each candidate experiment would bring, best first."""
        if not candidates:
            raise InputError("best_addition needs at least one candidate design")
        groups = [set(group.terms) for group in self.alias_groups()]
        result = []
        for name, candidate in candidates.items():
            stacked = self + candidate
            left = [set(group.terms) for group in stacked.alias_groups()]
            separated = tuple(
                tuple(sorted(g)) for g in groups if not any(g & other for other in left)
            )
            minimum = float(np.linalg.eigvalsh(stacked.normalised_gram("corrected"))[0])
            result.append(Addition(name, minimum, stacked.rank(), separated))
        return sorted(result, key=lambda a: (-a.rank, -a.minimum_eigenvalue))

    def best_addition(self, candidates: Mapping[str, Design]) -> Addition:
        """The candidate experiment that raises the rank, and then λ_min of the stacked design,
        most.

        Example:
            >>> x = np.linspace(0.1, 3, 50)
            >>> def mode(k):
            ...     u = np.sin(k * x)
            ...     return Design.from_matrix(np.column_stack([u, -k * k * u]), u, ["u", "lap"])
            >>> mode(1).best_addition({"again": mode(1), "second mode": mode(2)}).name
            'second mode'
        """
        return self.additions(candidates)[0]

    def __repr__(self) -> str:
        return (
            f"Design({len(self.names)} terms, {self.rows} rows, {self.effective_rows:.0f} "
            "independent)"
        )
