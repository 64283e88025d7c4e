"""Rewrite ``constraints.txt``: one version of everything that any extra needs, for Python 3.11 to 3.13.

``python -m tools.lock`` keeps the present versions and adds what is new; ``--upgrade`` takes the newest.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEADER = "# What CI installs, exact. Written by `make lock`; ranges are in pyproject.toml.\n"
# A CUDA build of torch pins these itself; other builds do without.
TORCHS_OWN = ("nvidia-", "cuda-")


def pins(compiled: str) -> list[str]:
    """Return sorted ``name==version`` lines, without the markers that a resolver adds."""
    lines = [line.split(";")[0].strip() for line in compiled.splitlines()]
    kept = sorted({line for line in lines if "==" in line and not line.startswith(TORCHS_OWN)})
    names = [line.split("==")[0] for line in kept]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"no one version fits every Python: {', '.join(twice)}")
    return kept


def main(arguments: list[str]) -> None:
    """Resolve with uv, which can do so for all Pythons and systems at once."""
    target = ROOT / "constraints.txt"
    command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--all-extras", "--universal"]
    command += ["--python-version", "3.11", "--fork-strategy", "fewest", "--no-annotate", "--no-header", "--quiet"]
    # uv takes the versions that it finds in the output file as its first choice.
    command += ["--output-file", str(target), *arguments]
    before = target.read_text(encoding="utf-8") if target.exists() else ""
    try:
        subprocess.run(command, cwd=ROOT, check=True)
        resolved = HEADER + "\n".join(pins(target.read_text(encoding="utf-8"))) + "\n"
    except (subprocess.CalledProcessError, ValueError) as error:
        target.write_text(before, encoding="utf-8")
        sys.exit(f"constraints.txt is as it was: {error}")
    target.write_text(resolved, encoding="utf-8")
    print(f"{target.name}: {resolved.count('==')} versions")


if __name__ == "__main__":
    main(sys.argv[1:])
