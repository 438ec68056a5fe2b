"""Sampled sequences as the batch of a policy update, on the host: small arrays of token ids and values of tokens."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from strategies.model.loss import IGNORE


@dataclass(frozen=True)
class Sequences:
    """Prompts with their generated tokens; shorter prompts are filled up behind, and so are their sequences."""

    prompts_BP: Int[np.ndarray, "B P"]
    generated_BG: Int[np.ndarray, "B G"]
    lengths_B: Int[np.ndarray, " B"]
    """Tokens of each prompt."""
    counts_BG: Bool[np.ndarray, "B G"]
    """Generated tokens that count: those up to the end of a sequence."""

    @classmethod
    def of(
        cls,
        prompts_BP: Int[np.ndarray, "B P"],
        generated_BG: Int[np.ndarray, "B G"],
        *,
        lengths_B: Int[np.ndarray, " B"] | None = None,
        stop_token: int | None = None,
    ) -> Sequences:
        """Sequences that end with their first ``stop_token``, which counts; without one, all generated tokens count."""
        lengths = np.full(len(prompts_BP), prompts_BP.shape[1]) if lengths_B is None else np.asarray(lengths_B)
        counts = np.ones(generated_BG.shape, bool)
        if stop_token is not None:
            before = np.cumsum(generated_BG == stop_token, axis=1) - (generated_BG == stop_token)
            counts = before == 0
        return cls(np.asarray(prompts_BP), np.asarray(generated_BG), lengths, counts)

    @cached_property
    def _places(self) -> Int[np.ndarray, "B T"]:
        """Index of each position among the generated tokens; negative inside the prompt."""
        total = self.prompts_BP.shape[1] + self.generated_BG.shape[1]
        return np.arange(total) - self.lengths_B[:, None]

    @property
    def tokens(self) -> Int[np.ndarray, "B T"]:
        """Prompt, generated tokens, and zeros behind them."""
        prompts = np.pad(self.prompts_BP, ((0, 0), (0, self.generated_BG.shape[1])))
        return np.where(self._places < 0, prompts, self._generated(self.generated_BG, 0)).astype(np.int32)

    @property
    def targets(self) -> Int[np.ndarray, "B T"]:
        """The next token at positions that predict a token that counts, ``IGNORE`` at all others."""
        following = np.where(self.counts_BG, self.generated_BG, IGNORE)
        return self._ahead(following, IGNORE).astype(np.int32)

    def at_predictions(self, values_BG: Float[np.ndarray, "B G"]) -> Float[np.ndarray, "B T"]:
        """Values of generated tokens at the positions that predict them."""
        return self._ahead(np.asarray(values_BG), 0.0).astype(np.float32)

    def _ahead(self, values_BG: np.ndarray, otherwise: float) -> np.ndarray:
        """``values_BG`` one position earlier."""
        found = self._generated(values_BG, otherwise)
        last = np.full((len(found), 1), otherwise)
        return np.concatenate([found[:, 1:], last], axis=1)

    def _generated(self, values_BG: np.ndarray, otherwise: float) -> np.ndarray:
        places, count = self._places, values_BG.shape[1]
        inside = (places >= 0) & (places < count)
        return np.where(inside, np.take_along_axis(values_BG, np.clip(places, 0, count - 1), axis=1), otherwise)
