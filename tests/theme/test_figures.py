import json

import pytest

from theme.paying_attention.figures import inert


@pytest.mark.parametrize("token", ["</SCRIPT>", "<!--<script", r"<\/script>", r"\<", r"\\<", "a < b"])
def test_a_state_without_angles_is_the_same_state(token: str) -> None:
    state = {"tokens": [token, "it"], token: None}
    made = inert(json.dumps(state))
    assert "<" not in made
    assert json.loads(made) == state
