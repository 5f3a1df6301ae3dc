"""Commands around studies: new, compare, explain, completion."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

import cffem
from cffem.cli import main
from cffem.commands.comparing import compare
from cffem.study.report.report import SECTIONS, Report, TermReport
from cffem.symbols.reasons import EXPLAINED, Code


@pytest.mark.fem
@pytest.mark.parametrize("name", ["my_heat", "my_heat.toml"])
def test_a_new_study_runs_as_it_stands(name, tmp_path, monkeypatch, capsys):
    pytest.importorskip("dolfinx")
    monkeypatch.chdir(tmp_path)
    assert main(["new", name]) == 0
    path = capsys.readouterr().out.split()[0]
    assert main(["run", path, "--out", "results"]) == 0
    assert "growth" in capsys.readouterr().out
    report = Report.read("results")
    assert report.terms["growth"].decision == "relevant"
    assert report.terms["drift"].decision == "irrelevant"


def test_a_new_study_never_overwrites_and_says_what_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("precious")
    for name, text in [
        ("mine", "exists already"),
        ("mine.txt", "ends in .py or .toml"),
        ("nowhere/mine", "no folder nowhere"),
        ('a"b.toml', "letters, digits"),
    ]:
        assert main(["new", name]) == 2
        assert text in capsys.readouterr().err
    assert (tmp_path / "mine.py").read_text() == "precious"


def report(**scores: tuple[float, str]) -> Report:
    return Report(
        {
            name: TermReport(
                name, "", 1.0, deletion=score, margin=0.01, epsilon=0.1, decision=verdict
            )
            for name, (score, verdict) in scores.items()
        },
        {name: {"skipped": "an example"} for name in SECTIONS},
    )


def test_compare_puts_changed_verdicts_first(tmp_path):
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    report(same=(0.3, "relevant"), moved=(0.2, "relevant"), gone=(0.1, "unresolved")).write(first)
    report(same=(0.3, "relevant"), moved=(0.25, "relevant"), new=(0.2, "relevant")).write(second)
    lines = compare(first, second).splitlines()
    assert lines[0].startswith("4 terms: 2 with another verdict, 1 with the same verdict and other")
    assert [line[:2].strip() for line in lines[2:]] == ["!", "!", "~", ""]
    assert "not in this report" in lines[2]
    assert "not in this report" in lines[3]


def test_compare_tells_what_else_differs(tmp_path):
    first, second = str(tmp_path / "a"), str(tmp_path / "b")
    one, two = report(a=(0.3, "relevant")), report(a=(0.3, "relevant"))
    scope = {"norm": "L2", "epsilon": 0.1, "refit": "none"}
    energy = {"energy": {"terms": {"a": {"decision": "relevant"}}}}
    Report(one.terms, {**one.sections, "scope": scope, "observables": energy}).write(first)
    Report(two.terms, {**two.sections, "scope": {**scope, "norm": "H1"}}).write(second)
    told = compare(first, second)
    assert "norm: L2 → H1" in told
    assert "energy, a: relevant → –" in told
    assert "ε:" not in told
    assert "Else" not in compare(first, first)
    report(b=(0.3, "relevant")).write(second)
    assert "No term is in both reports" in compare(first, second)


def errors_of_the_package() -> set[str]:
    """All classes that descend from InputError or SolveError, and what else users can meet."""
    bases = {}
    for path in Path(cffem.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {getattr(base, "id", "") for base in node.bases}
    found = {"InputError", "SolveError", "MissingFiniteElements", "UsageError"}
    while more := {name for name, above in bases.items() if above & found} - found:
        found |= more
    return found


def test_every_error_is_explained(capsys):
    assert errors_of_the_package() <= set(map(str, EXPLAINED))
    for asked, said in (
        ("solveerror", "no solution"),
        ("75", "--resume"),
        ("exit 2", "one sentence"),
        ("constraint_null", "vanishes"),
    ):
        assert main(["explain", asked]) == 0
        assert said in capsys.readouterr().out


def test_every_code_is_explained(capsys):
    assert {str(code) for code in Code if code != Code.NONE} <= set(map(str, EXPLAINED))
    for code in EXPLAINED:
        assert main(["explain", str(code)]) == 0
        assert capsys.readouterr().out.strip()
    assert main(["explain"]) == 0
    assert "over-budget" in capsys.readouterr().out.split()
    assert main(["explain", "over-budgt"]) == 2
    assert "did you mean over-budget?" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_names_commands_options_and_demos(shell, capsys):
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    for word in ("run", "resume", "maxwell", "over-budget"):
        assert word in text
    if shell == "bash":
        asked = text + 'COMP_WORDS=(cffem run --re); COMP_CWORD=2; _cffem; echo "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", asked], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "--resume"
