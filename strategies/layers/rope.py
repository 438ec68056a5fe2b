"""Rotary position embedding with the scaling variants that Hugging Face's ``rope_scaling`` names.

Angles are ``position * frequency``; H / 2 frequencies, the head's halves rotate against each other. The frequencies are
constants of a run, so they are computed with numpy in float64 while the step is traced.
"""

from __future__ import annotations

from math import log, pi

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec, Rope

Angles = tuple[Float[Array, "T half"], Float[Array, "T half"]]
"""Cosine and sine, fp32."""


def frequencies(model: ModelSpec, seq_len: int) -> tuple[np.ndarray, float]:
    """Frequencies [rad/position] of the H / 2 pairs, and the factor on cosine and sine (YaRN's; else 1).

    Parameters
    ----------
    model : ModelSpec
        Gives H, theta and the variant.
    seq_len : int
        T [tokens], which ``dynamic`` depends on.

    Returns
    -------
    tuple of ndarray (H / 2,) and float

    Raises
    ------
    BadInputError
        The variant needs the length that the model was first trained at, and the model does not state it.

    Source: B. Peng et al., "YaRN", arXiv:2309.00071; the Llama 3.1 model card's rope_scaling; transformers'
    ``modeling_rope_utils`` for names and defaults.
    """
    rope = model.rope
    plain = rope.theta ** -(np.arange(0, model.head_dim, 2) / model.head_dim)
    match rope.scaling:
        case "none":
            return plain, 1.0
        case "linear":
            return plain / rope.factor, 1.0
        case "dynamic":
            return _dynamic(model, seq_len), 1.0
        case "llama3":
            return _llama3(plain, rope, original=_original(model)), 1.0
        case "yarn":
            factor = 0.1 * log(rope.factor) + 1 if rope.attention_factor is None else rope.attention_factor
            return _yarn(plain, rope, original=_original(model)), factor


def _original(model: ModelSpec) -> int:
    length = model.rope.original_max_position or model.max_position
    if length is None:
        raise BadInputError(
            f"model {model.name}: rope scaling {model.rope.scaling!r} needs rope.original_max_position, the length in tokens"
            " that the model was first trained at"
        )
    return length


def _dynamic(model: ModelSpec, seq_len: int) -> np.ndarray:
    """Base raised so that the longest wave stretches with the sequence (NTK-aware)."""
    rope, H = model.rope, model.head_dim
    original = _original(model)
    stretch = rope.factor * max(seq_len, original) / original - (rope.factor - 1)
    theta = rope.theta * stretch ** (H / (H - 2))
    return np.asarray(theta ** -(np.arange(0, H, 2) / H))


def _llama3(plain: np.ndarray, rope: Rope, *, original: int) -> np.ndarray:
    """Slow long waves by ``factor``, keep short ones, and blend the others by their rotations over the original length."""
    rotations = original * plain / (2 * pi)
    blend = (rotations - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    keep = np.clip(blend, 0, 1)
    return plain * (keep + (1 - keep) / rope.factor)


def _yarn(plain: np.ndarray, rope: Rope, *, original: int) -> np.ndarray:
    """Ramp over the pairs: from ``beta_fast`` to ``beta_slow`` rotations over the original length."""
    half = plain.size

    def index(rotations: float) -> float:
        return half * log(original / (rotations * 2 * pi)) / log(rope.theta)

    low = max(np.floor(index(rope.beta_fast)), 0)
    high = min(np.ceil(index(rope.beta_slow)), 2 * half - 1)
    ramp = np.clip((np.arange(half) - low) / max(high - low, 1e-3), 0, 1)
    return plain * ((1 - ramp) + ramp / rope.factor)


def angles(model: ModelSpec, *, seq_len: int, positions_T: Int[Array, " T"]) -> Angles:
    """Cosine and sine of each position and pair, in fp32."""
    frequency, factor = frequencies(model, seq_len)
    angle = positions_T[:, None].astype(jnp.float32) * jnp.asarray(frequency, jnp.float32)
    return jnp.cos(angle) * factor, jnp.sin(angle) * factor


def rotate(x_BTNH: Float[Array, "B T N H"], rope: Angles) -> Float[Array, "B T N H"]:
    """Rotate every head by its position, in fp32; returned in the dtype of ``x_BTNH``."""
    cos, sin = (part[:, None, :] for part in rope)
    low, high = jnp.split(x_BTNH.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1).astype(x_BTNH.dtype)
