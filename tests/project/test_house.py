"""The files that a newcomer, CI and a lawyer meet agree with each other."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tools.notebooks import ROOT
from tools.requirements import read

PROJECT = read()
# Nothing of make's own, nor a chosen Python: these tests run under `make test` themselves.
PLAIN = {
    name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "PYTHON", "CONDA"))
}
PROMISED = ["book", "serve", "execute", "test", "test-fast", "test-gpu", "bench", "coverage", "clean", "help"]


def make(*arguments: str, **variables: str) -> str:
    environment = {**PLAIN, "VIRTUAL_ENV": "", **variables}
    done = subprocess.run(["make", *arguments], cwd=ROOT, env=environment, capture_output=True, text=True)
    return done.stdout + done.stderr


def contents(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("target", PROMISED)
def test_help_lists_and_make_knows(target: str) -> None:
    assert re.search(rf"^  {target} +\w", make(), re.MULTILINE)
    assert "No rule to make target" not in make("--dry-run", target)


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run", ".pre-commit-config.yaml"])
def test_every_make_command_that_is_written_down_exists(name: str) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", contents("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^|entry: )make(?: [A-Z]+=\S+)* ([a-z][a-z-]*)", contents(name), re.MULTILINE))
    assert named
    assert named <= targets


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_every_file_that_is_linked_exists(name: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", contents(name))
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert not missing


def test_ci_runs_the_command_of_the_readme() -> None:
    last = contents(".ci/run").strip().splitlines()[-1]
    assert last == "make test"
    assert re.search(r"^make test\b", contents("README.md"), re.MULTILINE)
    assert re.search(r"^make book\b", contents("README.md"), re.MULTILINE)
    assert os.access(ROOT / ".ci/run", os.X_OK)


@pytest.mark.parametrize("path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem)
def test_workflows_only_call_make(path: Path) -> None:
    jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
    commands = [step["run"].strip() for job in jobs for step in job["steps"] if "run" in step]
    assert commands
    assert all(re.fullmatch(r"make [a-z-]+|\.ci/run", command) for command in commands)


def test_an_active_environment_is_used_in_place(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    assert str(python) in make("--dry-run", "types", VIRTUAL_ENV=str(tmp_path))
    in_conda = make("--dry-run", "types", CONDA_PREFIX=str(tmp_path), CONDA_DEFAULT_ENV="x")
    assert str(python) in in_conda
    assert "--constraint" not in in_conda


def test_an_active_environment_that_is_gone_is_named() -> None:
    assert "/somewhere/env, has no bin/python" in make("--dry-run", "types", VIRTUAL_ENV="/somewhere/env")


@pytest.mark.parametrize("variables", [{}, {"CONDA_PREFIX": "/conda", "CONDA_DEFAULT_ENV": "base"}])
def test_without_one_it_is_dot_venv(variables: dict[str, str]) -> None:
    printed = make("--dry-run", "types", **variables)
    assert ".venv/bin/python" in printed
    assert "/conda" not in printed


def test_a_named_python_wins_over_an_active_environment() -> None:
    printed = make("--dry-run", "types", "PYTHON=python3", VIRTUAL_ENV="/somewhere/env")
    assert "/somewhere" not in printed


def test_a_path_with_a_space_is_refused() -> None:
    assert "has a space in it" in make("--dry-run", "types", VIRTUAL_ENV="/some where/env")


def test_both_licences_are_there_and_named() -> None:
    assert contents("LICENSE").startswith("MIT License")
    assert PROJECT["license"] == "MIT"
    assert "SPDX-License-Identifier: CC-BY-4.0" in contents("LICENSE-text")
    for name in ("LICENSE", "LICENSE-text"):
        assert "the Paying Attention contributors" in contents(name)


def test_the_version_is_one() -> None:
    citation = yaml.safe_load(contents("CITATION.cff"))
    (written,) = re.findall(r'^__version__ = "(.+)"', contents("companion/__init__.py"), re.MULTILINE)
    assert citation["version"] == PROJECT["version"] == written


def test_the_citation_is_complete() -> None:
    citation = yaml.safe_load(contents("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors", "version"} <= citation.keys()
    assert citation["authors"] == [{"name": "the Paying Attention contributors"}]
    assert set(citation["license"]) == {"MIT", "CC-BY-4.0"}


def test_lock_files_name_no_registry_but_the_default() -> None:
    for path in ROOT.glob("*/package-lock.json"):
        hosts = set(re.findall(r'"resolved": "https?://([^/"]+)', path.read_text(encoding="utf-8")))
        assert hosts <= {"registry.npmjs.org"}
    assert "://" not in contents("constraints.txt")
