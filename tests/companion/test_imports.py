"""What importing the package costs, and what it brings along."""

import importlib
import subprocess
import sys

import companion
from tests.companion.optional import KERNELS, modules


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_brings_no_heavy_package():
    """With torch counted out: it may bring triton by itself."""
    names = sorted(set(modules()) - KERNELS)  # which are imported when a kernel first runs
    names = [name for name in names if not name.startswith("companion.exercises.sets.")]  # when one is opened: figures
    heavy = "{'matplotlib', 'IPython', 'triton', 'transformers', 'tokenizers', 'safetensors', 'anywidget'}"
    run(
        "import sys, torch\n"
        "loaded = lambda: {name.split('.')[0] for name in sys.modules}\n"
        "before = loaded()\n"
        f"for name in {['companion', *names]!r}:\n"
        "    __import__(name)\n"
        f"assert not (loaded() - before) & {heavy}, (loaded() - before) & {heavy}\n"
    )


def test_importing_is_quick():
    """Seconds of the processor, since the machine may be busy, beyond what torch takes; the best of three."""
    code = "import time, torch, numpy; t = time.process_time(); import companion; print(time.process_time() - t)"
    assert min(float(run(code)) for _ in range(3)) < 0.1


def test_every_name_that_is_promised_is_there():
    for module in (
        companion,
        *map(importlib.import_module, modules()),
    ):
        names = getattr(module, "__all__", [])
        assert names == sorted(names, key=lambda name: (name.upper() != name, name[0].islower(), name)), module.__name__
        for name in names:
            assert getattr(module, name).__class__ is not None
            thing = getattr(module, name)
            if callable(thing) and getattr(thing, "__module__", "").startswith("companion"):
                assert thing.__doc__, f"{module.__name__}.{name} has no docstring"
