import os
import warnings

import matplotlib
import pytest
import torch

from companion import why_not

matplotlib.use("agg")
if not torch.cuda.is_available():  # before anything imports triton, which then asks once
    os.environ.setdefault("TRITON_INTERPRET", "1")


@pytest.fixture(autouse=True)
def _same_start():
    torch.manual_seed(0)
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def _present(name: str) -> str:
    if name == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no CUDA device here")
    return name


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
def device(request: pytest.FixtureRequest) -> str:
    """Each device that a test should run on."""
    return _present(request.param)


@pytest.fixture
def place(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Device and backend: see ``helpers.PLACES``."""
    device, backend = request.param
    _present(device)
    reason = why_not(backend, device=device)
    if reason is not None:
        pytest.skip(reason)
    return device, backend


@pytest.fixture
def compiled():
    """``torch.compile``, from a clean start; its own deprecations are not ours."""
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield torch.compile
    torch.compiler.reset()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the parity matrix, if it was asked for."""
    from tests.companion import parity

    worker = getattr(session.config, "workerinput", None)
    parity.finish(None if worker is None else worker["workerid"])
