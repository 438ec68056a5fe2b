"""The attention kernel of a device decides the time of a step, through the command."""

import pytest

WIDE = "base: llama3-8b\nheads: 16\nkv_heads: 4\nhead_dim: 256\n"
"""As many features as llama3-8b in half as many heads."""


@pytest.fixture
def estimate(lcplan, tmp_path):
    """Estimate of a model, with the notes."""

    def _estimate(text, *options):
        if "\n" in text:
            (tmp_path / "wide.yaml").write_text(text)
            text = str(tmp_path / "wide.yaml")
        job = ("--seq", "128k", "--mesh", "context=8", "--global-batch", "1", "--scheme", "ring-zigzag")
        answer = lcplan("estimate", "--model", text, *job, *options, "--format", "json")
        assert answer.code == 0, answer.err
        return answer.json["candidate"]["estimate"], " ".join(answer.json["notes"])

    return _estimate


def test_heads_of_256_on_hopper_take_as_long_as_heads_of_128(estimate):
    wide, notes = estimate(WIDE, "--hw", "dgx-h100")
    plain, _ = estimate("llama3-8b", "--hw", "dgx-h100")
    assert 0.8 < wide["time_s"]["attention"] / plain["time_s"]["attention"] < 1.1
    assert "cuDNN" not in notes


@pytest.mark.parametrize("hardware", ["dgx-b200", "dgx-a100-80"])
def test_other_devices_have_no_backward_pass_for_them(estimate, hardware):
    wide, notes = estimate(WIDE, "--hw", hardware)
    plain, _ = estimate("llama3-8b", "--hw", hardware)
    assert wide["time_s"]["attention"] > 1.2 * plain["time_s"]["attention"]
    assert "multiples of 8 up to 128" in notes
