"""Packages of the wheel: cffem, and the demos and meshes of the checkout as data below
cffem._shared.
"""

from setuptools import find_packages, setup

SHARED = {"cffem._shared.demos": "demos", "cffem._shared.meshes": "meshes"}

setup(
    packages=[*find_packages(include=["cffem*"]), *SHARED],
    package_dir=SHARED,
    package_data={
        **{name: ["*"] for name in SHARED},
        "cffem": ["py.typed", "*.pyi"],
        "cffem.study.report": ["*.json"],
    },
)
