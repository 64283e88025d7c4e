"""The shape legend, and the one result type that the whole package shares.

One letter, one meaning, in the prose, the equations and the code:

=====  ===============================================
``B``  batch
``H``  query heads
``G``  key/value heads (``H % G == 0``)
``L``  query length
``S``  key length
``D``  head width of queries and keys
``E``  head width of values
``M``  model width
=====  ===============================================

Annotations such as ``Float[Tensor, "B H L D"]`` are read by the type checker as ``Tensor``; the tests turn them on
at run time.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Bool, Float, Int
from torch import Tensor

__all__ = ["AttentionOutput", "Bool", "Float", "Int", "Tensor"]


class AttentionOutput(NamedTuple):
    """What attention returns when it shows its work.

    Attributes:
        output: the mix of the values, ``(..., L, E)``.
        weights: how much each query takes from each key, ``(..., L, S)``; each row sums to 1, or to 0 where a query
            may see nothing. Dropout is not in them.
        logsumexp: log of the sum of the exponentiated scores, ``(..., L)``, in natural units; minus infinity where a
            query may see nothing. Two partial results can be merged by it.
    """

    output: Tensor
    weights: Tensor
    logsumexp: Tensor
