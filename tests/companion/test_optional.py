"""A test that needs what is not installed is skipped, and said so; in CI it fails."""

import pytest

from tests.companion.optional import need


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch):
    need("torch")
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no_such_package not installed: make setup does it"):
        need("torch", "no_such_package")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no_such_package not installed"):
        need("no_such_package")
