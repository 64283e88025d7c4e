"""Ask a model what it attends to, and what that is good for.

``capture`` records the weights; ``rollout`` follows them through the layers, ``head_scores`` looks for what heads are
known to do, ``integrated_gradients`` asks for the score instead of the weights, and ``ablate_heads`` takes heads out.
What is seen is a reason to ask, not yet an explanation: a large weight on a value of zero does nothing.
"""

from companion.ablation import ablate_heads
from companion.capture import Captured, capture
from companion.head_scores import head_scores
from companion.integrated_gradients import Attributions, integrated_gradients, token_attributions
from companion.rollout import rollout

__all__ = [
    "Attributions",
    "Captured",
    "ablate_heads",
    "capture",
    "head_scores",
    "integrated_gradients",
    "rollout",
    "token_attributions",
]
