"""The pages of the documentation: their code compiles, uses public names, and links lead somewhere.

Building the site runs all of it; that is a slow test.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import cffem

TOP = Path(__file__).parents[2]
GENERATED = {"gallery", "reference", "changelog.md", "contributing.md"}
PAGES = [
    TOP / "README.md",
    *sorted(
        path
        for path in (TOP / "docs").rglob("*.md")
        if not GENERATED & {path.name, *path.relative_to(TOP / "docs").parts}
    ),
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_code_compiles_and_uses_public_names(page):
    blocks = re.findall(
        r"```(?:python|\{code-cell\} ipython3)\n(.*?)```", page.read_text(), flags=re.S
    )
    for block in blocks:
        compile(block, str(page), "exec")
        assert set(re.findall(r"\bcf\.([A-Za-z]\w*)", block)) <= set(cffem.__all__)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(TOP).as_posix())
def test_links_between_pages_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if "://" in link or any(part in GENERATED for part in Path(link).parts):
            continue
        assert (page.parent / link).exists(), link


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    for module in ("sphinx", "myst_nb", "furo", "latex2mathml"):
        pytest.importorskip(module)
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-b", "html", "docs", tmp_path],
        cwd=TOP,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    home = (tmp_path / "index.html").read_text()
    assert not re.findall(r'(?:src|href)="https?://[^"]+\.(?:js|css)"', home)
