# SPDX-License-Identifier: MIT
"""Reasons: why a verdict, an error bar or a solution is missing, as a code for programs and a text
for people.

Advice and tables follow from the code; nothing decides on the words of a sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# The constant of a certificate that says how far ‖u_h‖ can be from ‖u‖, where that is known to be
# less than the error of u_h.
SIZE_ERROR = "error of ‖u_h‖"
# What one finer level would cost for a term that is left open, in factual solves with all their
# deletions.
NEXT_LEVEL = "a finer level, in sweeps"


class Code(StrEnum):
    """What stands between a term and its verdict."""

    NONE = ""
    NULL = "constraint-null"
    ALIASED = "aliased"
    ZERO_COEFFICIENT = "coefficient-zero"
    UNSELECTED = "not-selected"
    DETECTION_LIMIT = "detection-limit"
    NO_THEOREM = "no-error-bar"
    NOT_SATURATED = "levels-not-saturated"
    OVER_BUDGET = "over-budget"
    MARGIN_DISCRETISATION = "margin-discretisation"
    MARGIN_COEFFICIENTS = "margin-coefficients"
    UNSOLVABLE = "deletion-unsolvable"
    PARTIAL = "deletion-in-part"
    MODEL_UNSOLVED = "model-unsolved"
    MODEL_BACKWARD = "model-backward-in-time"
    MODEL_GROWS = "model-grows"
    FIELD_VANISHES = "field-vanishes"


@dataclass(frozen=True)
class Reason:
    """A reason.

    Args:
        code: what programs look at.
        text: what people read.

    Example:
        >>> print(Reason(Code.ALIASED, "only the sum is identified"))
        only the sum is identified
    """

    code: Code
    text: str = ""

    def __str__(self) -> str:
        return self.text

    def to_plain(self) -> dict[str, str]:
        """As JSON's own types."""
        return {"code": str(self.code), "text": self.text}

    @classmethod
    def from_plain(cls, plain: dict[str, str]) -> Reason:
        """The reason that `to_plain` wrote."""
        return cls(Code(plain["code"]), plain["text"])


# What `cffem explain CODE` prints, and the site's page of codes.
EXPLAINED: dict[str, str] = {
    "relevant": "The score is above ε by more than its error bar: deleting the term changes the "
    "solution by more than ε.",
    "irrelevant": "The score is below ε by more than its error bar: deleting the term changes the "
    "solution by less than ε. It says nothing about other experiments, norms or tolerances.",
    "unresolved": "The error bar reaches across ε, or there is none. The reason beside it says "
    "which, and what would decide the term.",
    "unsolvable": "The problem without the term has no solution that could be found, however small "
    "the part of it that is taken away.",
    "guaranteed": "The code has checked every hypothesis of the theorem behind the error bar. "
    "Floating-point rounding is not enclosed.",
    "estimated": "The error bar comes from three discretisations whose gaps were seen to shrink. "
    "It covers in nearly all cases that were measured, and it is no proof.",
    Code.NULL: "The term vanishes on the constraint class, so no data of this class can tell its "
    "coefficient. Another experiment outside the class could; a finer mesh cannot.",
    Code.ALIASED: "Some combination of terms cannot be told apart by these data. The report writes "
    "out the combination that is identified. Add an experiment that separates them "
    "(`design.best_addition`), or leave one of the terms out.",
    Code.ZERO_COEFFICIENT: "The coefficient is zero, so deleting the term changes nothing.",
    Code.UNSELECTED: "The screen left the term out. It is irrelevant only if it stays below ε at "
    "the largest coefficient that the data allow.",
    Code.DETECTION_LIMIT: "The screen left the term out, but at the largest coefficient that the "
    "data allow it could change the solution by more than ε. Less noise or more data would tell.",
    Code.NO_THEOREM: "There is no error bar: no theorem covers this problem, and no estimate could "
    "be made. The text beside it says which hypothesis fails.",
    Code.NOT_SATURATED: "The solutions on three levels do not come closer to each other, so that "
    "nothing can be said about the limit. A finer mesh, shorter steps or smoother data help.",
    Code.OVER_BUDGET: "An error bar would cost more than the study allows. Raise `effort` or "
    "`budget`, or set `refine=True`, and run again with --resume: what is there is kept.",
    Code.MARGIN_DISCRETISATION: "The error bar of the discretisation reaches across ε. A finer "
    "mesh, a higher degree or `refine=True` narrows it.",
    Code.MARGIN_COEFFICIENTS: "The intervals of the fitted coefficients make the error bar reach "
    "across ε. A finer mesh does not help; less noise or more data do.",
    Code.UNSOLVABLE: "The deleted problem could not be solved, and no part of the term can be "
    "taken away either.",
    Code.PARTIAL: "The whole term cannot be deleted, so the numbers are about the largest part "
    "that can be. A term that is relevant in part is relevant.",
    Code.MODEL_UNSOLVED: "The model itself could not be solved with these coefficients. What was "
    "identified from data is reported all the same.",
    Code.MODEL_BACKWARD: "The fitted equation runs backward in time, like heat with a negative "
    "conductivity. Bound the coefficient (`Screening(bounds=…)`), or give better data.",
    Code.MODEL_GROWS: "The solution of the fitted model grows beyond all data within the window. "
    "The coefficients fit the rows of the regression, but not the trajectory.",
    Code.FIELD_VANISHES: "The field that this verdict is about is zero, so a relative tolerance "
    "has no meaning. Give an absolute one.",
    "misfit": "The selected model leaves more unexplained than the noise allows: a term is "
    "missing, or the data do not follow an equation of this library.",
    "unstable": "On resampled data another support wins too often.",
    "search": "The search ended at a limit, and a better support may lie beyond it.",
    "undetected": "A term that was left out may still have an amplitude that matters.",
    "correlated noise": "The noise is correlated, so that intervals would be too narrow.",
    "exit 0": "The command finished.",
    "exit 1": "Something that cffem did not foresee went wrong; --debug shows the traceback. Where "
    "mpirun is sent a signal it may turn the 75 of its ranks into 1.",
    "exit 2": "The study, the folder or an option cannot be used; one sentence says why and what "
    "to do, and --debug shows the traceback. Nothing was computed with it.",
    "exit 69": "containers/run found no way to an environment with DOLFINx, or could not build "
    "one; the line above says what to install.",
    "exit 75": "The study was ended by Ctrl-C, SIGTERM or SIGUSR1 and can go on with --resume.",
    "InputError": "What was given cannot be used. Every error below that is not about a solver is "
    "one, so that `except cf.InputError` catches them all.",
    "SymbolError": "An expression cannot mean anything.",
    "ShapeError": "Scalars, vectors and tensors are combined in a way that has no meaning.",
    "AmbiguousShape": "A curl or cross product is a scalar in the plane and a vector in space, and "
    "no field of the expression says which. Declare one with `dim=`.",
    "LibraryError": "The candidate terms are not a library: two are multiples of each other, one "
    "is zero, or the unknown is not clear.",
    "TermShapeError": "A term has another shape than the anchor of its equation.",
    "ParseError": "A text is not an expression of the term language; the column says where.",
    "UnitError": "A unit does not exist, or quantities of different kinds are added or compared.",
    "NoUnit": "A term acts in a part of the domain or is a form: no formula tells its unit.",
    "NotRepresentable": "A derivative is asked for that the element of its field does not have.",
    "NoFormula": "A term given as a UFL form is asked for what only a formula can tell.",
    "UnsupportedTerm": "A term cannot be solved for on these elements; the sentence names elements "
    "that can.",
    "DimensionError": "A term is written for another number of dimensions than the mesh has.",
    "MeshError": "A file is not a mesh that can be read, or is damaged; the sentence says where.",
    "DataError": "Measurements cannot be used: wrong shapes, missing axes, values that are not "
    "finite.",
    "DataUnavailable": "Data of a demo are not here and cannot be downloaded.",
    "StudyFileError": "A TOML file does not describe a study; the sentence names the key and what "
    "was expected.",
    "ScriptError": "A script is not a study: it ended before it ran one, or cannot be read.",
    "UsageError": "Options of a command do not fit together.",
    "OutputError": "The folder of results cannot be used: it belongs to another study, another run "
    "is busy in it, or nothing can be written there.",
    "CompilationError": "A form could not be compiled: no C compiler, or no room in the cache. "
    "`cffem doctor` looks for the cause.",
    "SolveError": "A problem has no solution that could be found: Newton's or the linear solver's "
    "iteration ended, or the matrix is singular. The sentence says at which step.",
    "ModelGrows": "The solution grows beyond all bounds within the window.",
    "PartlyHeld": "A fit with one coefficient held could not be solved for every value.",
    "MissingFiniteElements": "This name of cffem needs DOLFINx, which is not installed here: use "
    "containers/run, conda-forge's fenics-dolfinx or Debian 13's python3-dolfinx. Data, screening "
    "and symbols work without.",
}


def explain(word: str) -> str | None:
    """What a verdict, a kind of error bar, the code of a reason, an error or an exit code means;
    None if there is none.

    Example:
        >>> explain("over-budget")[:40]
        'An error bar would cost more than the st'
        >>> explain("constraint_null") == explain("constraint-null"), explain("75") is None
        (True, False)
    """
    asked = word.strip().lower().replace("_", "-")
    known = {str(name).lower(): text for name, text in EXPLAINED.items()}
    return known.get(asked) or known.get(f"exit {asked}")
