"""Which token looks at which, head by head?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas
from companion.widgets.values import Heads, Unfit

if TYPE_CHECKING:
    import matplotlib.figure
    from torch import Tensor

__all__ = ["HeadView"]

_MOST = 48
SPECIAL = re.compile(r"\[[A-Za-z]+\]|<\|?/?[A-Za-z_]+\|?>")
"""Tokens that stand for no text, such as [CLS], <s>, <|endoftext|>."""


class HeadView(Figure):
    """Attention weights, all heads small and one large, with the lines of one token.

    Without weights it shows two layers of two heads that are set by hand and computed, not trained: the token before,
    the same word; tokens near by, all alike.

    Args:
        tokens: the keys, as text.
        queries: the queries, where they are others than the keys, as in cross attention.
        weights: ``(layers, H, L, S)``, each from 0 to 1: a tensor, or a list of one ``(H, L, S)`` or ``(1, H, L, S)``
            a layer. Kept in whole 65,535ths of one up to 4,096 weights and 255ths beyond, and the figure says so.
        layer: shown large, from 0.
        head: shown large, from 0.
        side: whose lines are shown, a query's or a key's.
        token: which one, from 0.
        overview: what the small pictures show: heads, whole, or only the row (or column) of the one token.
        fade: show tokens such as [CLS] faintly. No weight changes, and nothing is made to add up to one again.

    Raises:
        ValueError: a value out of range or of another kind, or weights that do not fit the tokens.

    Example:
        >>> view = HeadView(["a", "b"], [[[[1.0, 0.0], [0.25, 0.75]]]])
        >>> view.attention[0, 0, 1]
        tensor([0.2500, 0.7500], dtype=torch.float64)
        >>> view
        HeadView(tokens=['a', 'b'], queries=[], weights=(1, 1, 2, 2), layer=0, head=0, side='query', token=0, \
overview='heads', fade=False)
    """

    question = "Which token looks at which, head by head?"
    given: ClassVar[tuple[str, ...]] = ("tokens", "queries", "weights")

    tokens = traitlets.List(traitlets.Unicode(), ["the", "cat", "sat", "on", "the", "mat"], minlen=1, maxlen=_MOST).tag(
        sync=True
    )
    queries = traitlets.List(traitlets.Unicode(), maxlen=_MOST).tag(sync=True)
    weights = Heads().tag(sync=True)
    layer = traitlets.Int(0, min=0).tag(sync=True)
    head = traitlets.Int(0, min=0).tag(sync=True)
    side = traitlets.Enum(["query", "key"], "query").tag(sync=True)
    token = traitlets.Int(0, min=0).tag(sync=True)
    overview = traitlets.Enum(["heads", "token"], "heads").tag(sync=True)
    fade = traitlets.Bool(False).tag(sync=True)

    def __init__(self, tokens: Any = None, weights: Any = None, **state: Any) -> None:
        given = {name: value for name, value in (("tokens", tokens), ("weights", weights)) if value is not None}
        super().__init__(**given, **state)
        self._shape = self.weights["shape"]

    @classmethod
    def from_model(
        cls,
        model: Any,
        inputs: Any,
        tokens: Sequence[str] | None = None,
        *,
        only: str = "*",
        tokenizer: Any = None,
        **state: Any,
    ) -> HeadView:
        """Run a model once and show the attention that it paid.

        Args:
            model: a model of this package or of ``transformers``; or a ``MiniLM``.
            inputs: what it is called with: ids ``(L,)`` or ``(1, L)``; a tuple of such, by position; a dict, by name.
                A text, if the model is a ``MiniLM`` or there is a ``tokenizer``.
            tokens: the keys, as text; the ids, or what the tokenizer makes of them, if not given.
            only: which layers, by name, with ``*`` for anything, as in ``capture``: ``"*.cross_attention"``.
            tokenizer: of the library ``tokenizers`` or ``transformers``.
            **state: more of what ``HeadView`` takes: ``queries``, ``layer``, ``head``, ...

        Returns:
            The figure. The model's mode, gradients and random numbers are as they were.

        Raises:
            TypeError: a text without a tokenizer, or an argument of the wrong kind.
            ValueError: layers of different shapes, or a batch of more than one.
        """
        import torch

        from companion.capture import capture

        tokenizer = tokenizer or getattr(model, "tokenizer", None)
        network = model if isinstance(model, torch.nn.Module) else getattr(model, "model", model)
        if isinstance(inputs, str):
            if tokenizer is None:
                raise TypeError("inputs must be ids where no tokenizer is given, got a text")
            encoded = tokenizer.encode(inputs)
            inputs = encoded if isinstance(encoded, list) else encoded.ids
        arguments, options = _called_with(inputs)
        device = next((p.device for p in network.parameters()), None) if isinstance(network, torch.nn.Module) else None
        training = [module for module in network.modules() if module.training] if device is not None else []
        ready = [_batched(x, device) for x in arguments], {name: _batched(x, device) for name, x in options.items()}
        with capture(network, only=only, to="cpu") as record:
            try:
                for module in training:
                    module.training = False
                with torch.no_grad():
                    network(*ready[0], **ready[1])
            finally:
                for module in training:
                    module.training = True
        layers = record.last()
        shapes = {name: tuple(calls[-1].shape) for name, calls in record.items()}
        if len(set(shapes.values())) > 1:
            raise ValueError(f"only must choose layers of one shape, got {shapes}")
        if layers[0].shape[0] != 1:
            raise ValueError(f"inputs must be a batch of one, got {layers[0].shape[0]}")
        if tokens is None:
            ids = [*ready[0], *ready[1].values()][0].flatten().tolist()
            names = getattr(tokenizer, "convert_ids_to_tokens", None)
            single = getattr(tokenizer, "id_to_token", str)
            tokens = list(names(ids)) if names else [single(i) for i in ids]
        return cls(tokens, torch.cat(layers), **state)

    @traitlets.default("weights")
    def _by_hand(self) -> dict[str, Any]:
        from companion.widgets.packed import pack

        return pack(_four_heads(self.tokens))

    @traitlets.validate("tokens", "queries", "weights", "layer", "head", "token")
    def _fits(self, proposal: Any) -> Any:
        """Refuse what does not fit the weights."""
        name, got = proposal["trait"].name, proposal["value"]
        shape = got["shape"] if name == "weights" else getattr(self, "_shape", None) or self.weights["shape"]
        layers, heads, length, keys = shape
        if name == "weights":
            if shape != getattr(self, "_shape", shape):
                raise Unfit(f"weights must stay of shape {self._shape}, got {shape}")
            if keys != len(self.tokens):
                raise Unfit(f"weights must have a column a token, {len(self.tokens)}, got {keys}")
            if length != len(self.queries or self.tokens):
                rows = len(self.queries or self.tokens)
                raise Unfit(f"weights must have a row a query, {rows}, got {length}")
            return got
        if name in ("tokens", "queries"):
            want = keys if name == "tokens" else length
            if hasattr(self, "_shape") and len(got) != want and (got or length != keys or name == "tokens"):
                raise Unfit(f"{name} must be {want}, as in the weights, got {len(got)}")
            return got
        end = {"layer": layers, "head": heads, "token": length if self.side == "query" else keys}[name]
        if got >= end:
            raise Unfit(f"{name} must be less than {end}, got {got}")
        return got

    @property
    def attention(self) -> Tensor:
        """The weights as they are shown, ``(layers, H, L, S)``, rounded as ``weights`` says."""
        from companion.widgets.packed import unpack

        return unpack(self.weights)

    @traitlets.default("alt")
    def _describe(self) -> str:
        layers, heads, _, _ = self.weights["shape"]
        return (
            f"Attention weights of {layers} layers with {heads} heads each over the tokens {' '.join(self.tokens)}: "
            "all heads as small pictures, one as a large table, and the lines of one token."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """All heads in one picture, the chosen one beside it."""
        import torch
        from matplotlib.colors import LinearSegmentedColormap

        from companion import plots

        numbers = self.attention
        layers, heads, length, keys = numbers.shape
        sheet = torch.full((layers, heads, length + 1, keys + 1), torch.nan)
        sheet[..., :length, :keys] = numbers
        # (layers, H, L + 1, S + 1) -> (layers * (L + 1), H * (S + 1))
        mosaic = sheet.transpose(1, 2).reshape(layers * (length + 1), heads * (keys + 1))
        picture, (left, right) = canvas(2, (11.0, 4.6))
        colors = LinearSegmentedColormap.from_list("weights", plots._WEIGHT_RAMP)
        left.imshow(mosaic.sqrt(), cmap=colors, vmin=0, vmax=1, aspect="auto")
        left.set_xticks([(keys + 1) * h + keys / 2 for h in range(heads)], [str(h) for h in range(heads)])
        left.set_yticks([(length + 1) * n + length / 2 for n in range(layers)], [str(n) for n in range(layers)])
        left.set(xlabel="head", ylabel="layer", title="all heads, square roots of weights")
        plots.heatmap(numbers[self.layer, self.head], list(self.queries or self.tokens), list(self.tokens), ax=right)
        right.set_title(f"layer {self.layer}, head {self.head}")
        return picture

    def __repr__(self) -> str:
        """With the weights' shape in their place."""
        state = {name: getattr(self, name) for name in self.state_names()}
        state["weights"] = tuple(self.weights["shape"])
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in state.items())})"


def _called_with(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments by position and by name."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}


def _batched(x: Any, device: Any) -> Any:
    """Ids as a batch of one, where the model is."""
    import torch

    tensor = torch.as_tensor(x, device=device)
    return tensor[None] if tensor.dim() == 1 else tensor


def _four_heads(tokens: list[str]) -> Tensor:
    """Queries and keys written down so that each head does one thing: ``(2, 2, L, L)``."""
    import torch

    from companion import scaled_dot_product_attention

    words = sorted(set(tokens))
    word = torch.tensor([[float(token == each) for each in words] for token in tokens], dtype=torch.float64)
    # A place is an angle: the product of two is the cosine of their distance.
    step = torch.tensor(torch.pi / (len(tokens) + 1), dtype=torch.float64)
    angle = torch.arange(len(tokens), dtype=torch.float64) * step
    place, before = (torch.stack([x.cos(), x.sin()], dim=-1) for x in (angle, angle - step))
    near = float(1 / (1 - step.cos()))  # one place further costs a score of 1
    pairs = [(before, place, 4 * near), (word, word, 4.0), (place, place, near), (word, word, 0.0)]
    weights = [scaled_dot_product_attention(q, k, k, scale=scale).weights for q, k, scale in pairs]
    return torch.stack([x for x in weights if x is not None]).unflatten(0, (2, 2))
