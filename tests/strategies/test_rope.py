"""Every RoPE variant against its formula, written out as a scalar loop, and one published figure."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec, Rope
from strategies.layers.rope import angles, frequencies, rotate

SIZES = {"name": "m", "layers": 1, "d_model": 64, "d_ff": 64, "heads": 2, "kv_heads": 1, "vocab": 64}


def model(head_dim=64, max_position=None, **rope):
    return ModelSpec(**SIZES, head_dim=head_dim, max_position=max_position, rope=Rope(**rope))


def plain(theta, head_dim=64):
    return [theta ** (-2 * i / head_dim) for i in range(head_dim // 2)]


def test_none_and_linear():
    got, factor = frequencies(model(theta=1e4), 128)
    assert factor == 1
    assert got == pytest.approx(plain(1e4))
    assert frequencies(model(theta=1e4, scaling="linear", factor=4.0), 128)[0] == pytest.approx([x / 4 for x in plain(1e4)])


def test_dynamic_raises_theta_beyond_the_original_length():
    rope = {"theta": 1e4, "scaling": "dynamic", "factor": 2.0, "original_max_position": 1024}
    assert frequencies(model(**rope), 512)[0] == pytest.approx(plain(1e4))  # shorter sequences: unchanged
    theta = 1e4 * (2 * 4096 / 1024 - 1) ** (64 / 62)  # 1e4 * 7 ** (64 / 62)
    assert frequencies(model(**rope), 4096)[0] == pytest.approx(plain(theta))


def test_llama3_by_wavelength():
    rope = {"theta": 5e5, "scaling": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    got, _ = frequencies(model(128, **rope, original_max_position=8192), 131072)
    for frequency, base in zip(got, plain(5e5, 128), strict=True):
        wavelength = 2 * math.pi / base
        if wavelength < 8192 / 4:
            wanted = base
        elif wavelength > 8192 / 1:
            wanted = base / 8
        else:
            smooth = (8192 / wavelength - 1) / (4 - 1)
            wanted = (1 - smooth) * base / 8 + smooth * base
        assert frequency == pytest.approx(wanted)
    assert got[0] == 1  # the fastest pair is never slowed
    assert got[-1] == pytest.approx(5e5 ** (-126 / 128) / 8)  # the slowest is, whole


def test_yarn_by_pair():
    rope = {"theta": 1e4, "scaling": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0}
    got, factor = frequencies(model(**rope, original_max_position=4096), 16384)
    assert factor == pytest.approx(0.1 * math.log(4) + 1)
    # the pair whose wave turns n times over 4096 tokens: i = 32 ln(4096 / (2 pi n)) / ln(10^4); 10.46 for 32, 22.51 for 1
    low, high = 10, 23
    for i, (frequency, base) in enumerate(zip(got, plain(1e4), strict=True)):
        ramp = min(max((i - low) / (high - low), 0), 1)
        assert frequency == pytest.approx(base / 4 * ramp + base * (1 - ramp))


def test_yarn_attention_factor_is_taken_from_the_model():
    rope = Rope(scaling="yarn", factor=4.0, original_max_position=4096, attention_factor=1.25)
    assert frequencies(ModelSpec(**SIZES, head_dim=64, rope=rope), 8192)[1] == 1.25


def test_original_length_falls_back_to_max_position():
    rope = {"theta": 1e4, "scaling": "dynamic", "factor": 2.0}
    with_max = frequencies(model(max_position=1024, **rope), 4096)[0]
    assert with_max == pytest.approx(frequencies(model(original_max_position=1024, **rope), 4096)[0])
    with pytest.raises(BadInputError, match=r"needs rope\.original_max_position"):
        frequencies(model(**rope), 4096)


def test_rotation_depends_on_relative_position_only():
    rng = np.random.default_rng(0)
    q, k = (jnp.asarray(rng.normal(size=(1, 1, 1, 64)), jnp.float32) for _ in range(2))

    def score(query_position, key_position):
        turned = [
            rotate(x, angles(model(theta=1e4), seq_len=128, positions_T=jnp.array([position])))
            for x, position in ((q, query_position), (k, key_position))
        ]
        return float(jnp.sum(turned[0] * turned[1]))

    assert score(40, 33) == pytest.approx(score(7, 0), rel=1e-4)
    assert score(5, 5) == pytest.approx(float(jnp.sum(q * k)), rel=1e-5)
