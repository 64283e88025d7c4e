"""Print what parts of the project need, one requirement a line: ``python -m tools.requirements core book``.

``core`` is the package's own dependencies; every other name is an extra of ``pyproject.toml`` or a dependency group.
This is how ``make book`` installs the site's tools without the package, and so without torch.
"""

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def read(path: Path = PYPROJECT) -> dict[str, Any]:
    """Return the ``project`` table of a pyproject file, with its dependency groups."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return {**tables["project"], "dependency-groups": tables.get("dependency-groups", {})}


def requirements(parts: list[str], project: dict[str, Any]) -> list[str]:
    """Return the requirements of the named parts, in order, each once."""
    extras = {"core": project["dependencies"], **project["optional-dependencies"], **project["dependency-groups"]}
    found: dict[str, None] = {}
    for part in parts:
        if part not in extras:
            raise ValueError(f"no part {part!r}: the parts are {', '.join(extras)}")
        for requirement in extras[part]:
            # An extra may be a list of other extras of this project.
            itself = re.fullmatch(rf"{re.escape(project['name'])}\[(.+)\]", requirement)
            names = re.split(r"\s*,\s*", itself[1]) if itself else []
            found.update(dict.fromkeys(requirements(names, project) if itself else [requirement]))
    return list(found)


if __name__ == "__main__":
    try:
        print("\n".join(requirements(sys.argv[1:], read())))
    except ValueError as error:
        sys.exit(str(error))
