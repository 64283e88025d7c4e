"""What the checks do beside refusing; what they refuse, the table of bad input has."""

import pytest
import torch

from companion import check


def test_they_hand_on_what_they_let_pass(device: str):
    x = torch.ones(2, 3, 8, device=device)
    assert check.module_input("x", x, torch.ones(4, 8, device=device), "(..., L, M)") is x
    assert check.integers("ids", x.long()).dtype == torch.int64
    assert check.axis("dim", -1, x) == 2
    assert check.axis("dim", 0, x) == 0
    assert check.one_of("name", "a", ("a", "b")) == "a"
    assert check.positive("eps", 1) == 1.0
    ids = torch.tensor([[0, 4], [1, 2]], device=device)
    assert check.ids("ids", ids, 5) is ids


@pytest.mark.parametrize("dtype", check.INTEGERS, ids=str)
def test_every_integer_that_pytorch_works_with(dtype: torch.dtype):
    x = torch.tensor([[0, 1], [2, 3]], dtype=dtype)
    assert check.integers("x", x) is x
    assert check.ids("x", x, 4) is x
    assert check.extremes(x) == (0, 3)
    assert check.int_or_bool("x", x[0]).tolist() == [0, 1]


def test_extremes():
    assert check.extremes(torch.tensor([[3, -2], [7, 0]])) == (-2, 7)
    assert check.extremes(torch.zeros(0, dtype=torch.long)) == (0, -1)
    assert check.extremes(torch.zeros(3, dtype=torch.long, device="meta")) == (0, -1)


@pytest.mark.parametrize("x", [[1, 2], (1, 2), range(1, 3), torch.tensor([1, 2])], ids=str)
def test_counts_in_any_form(x: object):
    assert check.int_or_bool("x", x).tolist() == [1, 2]


def test_a_table_or_nothing():
    assert check.int_or_bool("x", []).shape == (0,)
    assert check.int_or_bool("x", [[True, False]]).tolist() == [[True, False]]
    with torch.device("meta"):
        assert check.int_or_bool("x", [1, 2]).tolist() == [1, 2]


@pytest.mark.parametrize("wrong", [-1, 5])
def test_ids_outside_the_vocabulary(wrong: int):
    with pytest.raises(ValueError, match=f"ids must be from 0 to 4, got {wrong}"):
        check.ids("ids", torch.tensor([[0, wrong]]), 5)


def test_autocast_takes_other_dtypes(device: str):
    weight, x = torch.ones(4, 8, device=device), torch.ones(3, 8, device=device, dtype=torch.bfloat16)
    with torch.autocast(device, dtype=torch.bfloat16):
        assert check.module_input("x", x, weight, "(..., M)") is x
    with pytest.raises(TypeError, match=r"x must have the module's dtype, torch.float32, got torch.bfloat16"):
        check.module_input("x", x, weight, "(..., M)")
