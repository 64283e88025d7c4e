"""Make the virtual environment, or say why this Python cannot.

Runs under any Python, old ones too, so that a reader with the wrong one gets a sentence and no traceback:
no f-strings, no annotations.
"""

from __future__ import print_function

import os
import shutil
import subprocess
import sys

OLDEST = (3, 11)


def refusal(version):
    """Return why this version of Python will not do, or an empty string."""
    if tuple(version[:2]) >= OLDEST:
        return ""
    return (
        "This project needs Python {}.{} or newer, and {} is {}.{}. Name another one: make PYTHON=/path/to/python3.12"
    ).format(OLDEST[0], OLDEST[1], sys.executable, version[0], version[1])


def base(environment):
    """Return the interpreter that an environment was made from, as its pyvenv.cfg says."""
    try:
        with open(os.path.join(environment, "pyvenv.cfg")) as config:
            entries = [line.partition("=") for line in config]
    except IOError:
        return None
    return {key.strip(): value.strip() for key, _, value in entries}.get("executable")


def is_from(environment, executable):
    """Tell whether an environment was made from this interpreter."""
    made_from = base(environment)
    return made_from is not None and os.path.realpath(made_from) == os.path.realpath(executable)


def make(environment):
    """Make the environment anew from the running interpreter."""
    print("Making {} from Python {}.{}.{}".format(environment, *sys.version_info[:3]))
    sys.stdout.flush()
    code = subprocess.call([sys.executable, "-m", "venv", "--clear", environment])
    if code:
        # A half-made one would look finished to the next run.
        shutil.rmtree(environment, ignore_errors=True)
        sys.exit("Could not make {}. On Debian and Ubuntu: apt-get install python3-venv".format(environment))


def main(arguments):
    """Run one of: check; same ENVIRONMENT; make ENVIRONMENT."""
    command, environment = arguments[0], arguments[-1]
    why_not = refusal(sys.version_info)
    if why_not:
        sys.exit(why_not)
    if command == "make":
        make(environment)
    elif command == "same":
        sys.exit(not is_from(environment, getattr(sys, "_base_executable", None) or sys.executable))


if __name__ == "__main__":
    main(sys.argv[1:])
