"""Who may look at whom?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import traitlets

from companion.widgets.base import Figure
from companion.widgets.picture import canvas
from companion.widgets.values import Matrix, Unfit

if TYPE_CHECKING:
    import matplotlib.figure
    from torch import Tensor

    from companion.mask import Mask

__all__ = ["MaskEditor"]

_HOW = ["off", "and", "or", "and not", "or not"]
_RULES = ("causal", "padding", "window", "document")
_MOST = 12
_PAD = "[pad]"


class MaskEditor(Figure):
    """Rules about pairs, joined; their table of answers, in which single cells can be set; the weights that follow.

    The rules are taken in the order in which they stand below, each joined to what came before it. The first that is
    not off begins: of it, only "not" counts.

    Args:
        tokens: two to twelve. Their number stays; those beyond ``length`` stand aside for padding.
        causal: how "the key comes no later than the query" is joined: off, and, or, and not, or not.
        padding: likewise "the key is a real token".
        window: likewise "the key is less than ``width`` places away".
        document: likewise "the key is of the same document".
        length: how many tokens are real; the others are padding, whether a rule speaks of them or not.
        side: where the padding is, right or left.
        width: of the window.
        ids: the document of each place, whole numbers from 0 to 11.
        by_hand: cells set by hand, ``[query, key, allowed]`` each, which no rule can change.
        scores: before the mask, ``(S, S)``, from -10 to 10.
        inverted: the model reads ``True`` as hidden, as PyTorch's ``nn.MultiheadAttention`` does.
        empty: what becomes of a row that may see nothing: zeros (as here and in PyTorch's SDPA), nan (minus infinity
            and a plain softmax) or uniform (minus 1e9 and a plain softmax).

    Raises:
        ValueError: a value out of range or of another kind, or one that does not fit the tokens.

    Example:
        >>> editor = MaskEditor(tokens=["a", "b", "c"], length=2, causal="and")
        >>> print(editor.code)
        mask = causal() & padding([2])
        >>> editor.mask
        [[True, False, False], [True, True, False], [True, True, False]]
    """

    question = "Who may look at whom?"
    sized = "tokens"

    tokens = traitlets.List(traitlets.Unicode(), ["the", "cat", "sat", "on", "the", "mat"], minlen=2, maxlen=_MOST).tag(
        sync=True
    )
    causal = traitlets.Enum(_HOW, "off").tag(sync=True)
    padding = traitlets.Enum(_HOW, "and").tag(sync=True)
    window = traitlets.Enum(_HOW, "off").tag(sync=True)
    document = traitlets.Enum(_HOW, "off").tag(sync=True)
    length = traitlets.Int(min=0, max=_MOST).tag(sync=True)
    side = traitlets.Enum(["right", "left"], "right").tag(sync=True)
    width = traitlets.Int(2, min=1, max=_MOST).tag(sync=True)
    ids = traitlets.List(traitlets.Int(min=0, max=_MOST - 1)).tag(sync=True)
    by_hand = traitlets.List(traitlets.List()).tag(sync=True)
    scores = Matrix([], limit=10.0, rows=(2, _MOST), columns=(2, _MOST)).tag(sync=True)
    inverted = traitlets.Bool(False).tag(sync=True)
    empty = traitlets.Enum(["zeros", "nan", "uniform"], "zeros").tag(sync=True)

    @traitlets.default("length")
    def _all_but_two(self) -> int:
        return max(1, len(self.tokens) - 2)

    @traitlets.default("ids")
    def _two_documents(self) -> list[int]:
        return [2 * i // len(self.tokens) for i in range(len(self.tokens))]

    @traitlets.default("scores")
    def _some_scores(self) -> list[list[float]]:
        from companion.splitmix import SplitMix

        count = len(self.tokens)
        drawn: list[list[float]] = (SplitMix(6).uniform((count, count)) * 4 - 2).tolist()
        return [[round(x, 1) + 0.0 for x in row] for row in drawn]  # + 0: no -0.0

    @traitlets.validate("tokens", "length", "ids", "scores", "by_hand")
    def _fits(self, proposal: Any) -> Any:
        """Refuse what is not made for so many tokens."""
        name, got = proposal["trait"].name, proposal["value"]
        if name == "tokens":
            self._require_count(name, got, "")
            return got
        count = len(self.tokens)
        if name == "length" and got > count:
            raise Unfit(f"length must be at most the number of tokens, {count}, got {got}")
        if name == "ids" and len(got) != count:
            raise Unfit(f"ids must have one number a token, {count}, got {len(got)}")
        if name == "scores" and (len(got), len(got[0])) != (count, count):
            raise Unfit(f"scores must have shape {(count, count)}, got {(len(got), len(got[0]))}")
        return _cells(got, count) if name == "by_hand" else got

    @property
    def names(self) -> list[str]:
        """What stands in each place: real tokens, and padding."""
        pads = [_PAD] * (len(self.tokens) - self.length)
        real = list(self.tokens[: self.length])
        return pads + real if self.side == "left" else real + pads

    def rule(self) -> Mask | None:
        """The rules joined, as a mask of :mod:`companion.masks`; None where none is in force."""
        made: Mask | None = None
        for name in _RULES:
            how = getattr(self, name)
            if how == "off":
                continue
            term = self._term(name)
            term = ~term if how.endswith("not") else term
            made = term if made is None else (made | term if how.startswith("or") else made & term)
        return made

    def _term(self, name: str) -> Mask:
        import torch

        from companion import masks

        if name == "causal":
            return masks.causal()
        if name == "window":
            return masks.sliding_window(self.width, causal=False)
        if name == "document":
            return masks.document(torch.tensor([self.ids]))
        if self.side == "right":
            return masks.padding([self.length])
        real = torch.arange(len(self.tokens)) >= len(self.tokens) - self.length
        return masks.padding(real[None])

    @property
    def mask(self) -> list[list[bool]]:
        """The table, ``(S, S)``: ``True`` = may attend."""
        table: list[list[bool]] = self._table().tolist()
        return table

    def _table(self) -> Tensor:
        import torch

        count = len(self.tokens)
        rule = self.rule()
        table = torch.ones(count, count, dtype=torch.bool) if rule is None else rule.dense(1, 1, count, count)[0, 0]
        for query, key, allowed in self.by_hand:
            table[query, key] = bool(allowed)
        return table

    @property
    def weights(self) -> list[list[float]]:
        """What softmax makes of the scores under the mask, as the model reads it, ``(S, S)``."""
        weights: list[list[float]] = self._weights().tolist()
        return weights

    def _weights(self) -> Tensor:
        import torch

        from companion import stable_softmax

        hidden = self._table() if self.inverted else ~self._table()
        scores = torch.tensor(self.scores, dtype=torch.float64)
        if self.empty == "zeros":
            return stable_softmax(scores.masked_fill(hidden, float("-inf")))
        return torch.softmax(scores.masked_fill(hidden, -1e9 if self.empty == "uniform" else float("-inf")), dim=-1)

    @property
    def code(self) -> str:
        """What makes the mask, in the words of :mod:`companion.masks`: to be pasted below the imports."""
        count = len(self.tokens)
        text, joined = "", ""
        for name in _RULES:
            how = getattr(self, name)
            if how == "off":
                continue
            term = ("~" if how.endswith("not") else "") + self._word(name)
            sign = "|" if how.startswith("or") else "&"
            if not text:
                text = term
            else:
                text = f"({text}) {sign} {term}" if joined not in ("", sign) else f"{text} {sign} {term}"
                joined = sign
        if not self.by_hand:
            return f"mask = {text or None}"
        whole = f"({text})" if joined or text.startswith("~") else text
        dense = f"{whole}.dense(1, 1, {count}, {count})[0, 0]" if text else f"torch.ones({count}, {count}).bool()"
        lines = [f"mask = {dense}"]
        for allowed in (True, False):
            cells = [cell for cell in self.by_hand if cell[2] == allowed]
            if len(cells) == 1:
                lines.append(f"mask[{cells[0][0]}, {cells[0][1]}] = {allowed}")
            elif cells:
                lines.append(f"mask[{[q for q, _, _ in cells]}, {[k for _, k, _ in cells]}] = {allowed}")
        return "\n".join(lines)

    def _word(self, name: str) -> str:
        if name == "causal":
            return "causal()"
        if name == "window":
            return f"sliding_window({self.width}, causal=False)"
        if name == "document":
            return f"document(torch.tensor([{self.ids}]))"
        if self.side == "right":
            return f"padding([{self.length}])"
        pads = len(self.tokens) - self.length
        return f"padding(torch.arange({len(self.tokens)})[None] >= {pads})"

    @traitlets.default("alt")
    def _describe(self) -> str:
        count = len(self.tokens)
        return (
            f"A table of {count} queries by {count} keys, {', '.join(self.names)}: which query may look at which key, "
            "by rules that can be joined and cells that can be set; beside it the weights that follow."
        )

    def fallback(self) -> matplotlib.figure.Figure:
        """The table and the weights."""
        from companion import plots

        hidden = self._table() if self.inverted else ~self._table()
        weights = self._weights()
        picture, (left, right) = canvas(2, (9.0, 4.2))
        plots.mask(~hidden, self.names, keys=self.names, ax=left)
        plots.heatmap(weights, self.names, self.names, masked=hidden & (weights == 0), ax=right)
        left.set_title("may attend")
        right.set_title("weights")
        return picture


def _cells(cells: list[Any], count: int) -> list[list[Any]]:
    """Each a query, a key and yes or no; in order, none twice."""
    kept: dict[tuple[int, int], bool] = {}
    for cell in cells:
        if len(cell) != 3 or not all(isinstance(x, int) for x in cell) or cell[2] not in (0, 1):
            raise Unfit(f"by_hand must have [query, key, allowed] for each cell, got {cell!r}")
        if not all(0 <= x < count for x in cell[:2]):
            raise Unfit(f"by_hand must have queries and keys from 0 to {count - 1}, got {cell!r}")
        kept[cell[0], cell[1]] = bool(cell[2])
    return [[query, key, kept[query, key]] for query, key in sorted(kept)]
