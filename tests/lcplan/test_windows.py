"""Which layers have a window, and the halo that chunks need."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from lcplan.spec.layers import LayerKind, LayerRun
from lcplan.spec.model import ModelSpec
from lcplan.spec.windows import HALO_TILE, WindowPattern, halo_pieces

SMALL = {"name": "small", "layers": 26, "d_model": 8, "d_ff": 16, "heads": 2, "kv_heads": 1, "head_dim": 4, "vocab": 16}
FULL, WINDOWED = LayerKind(), LayerKind(window=4)
SIZES = st.integers(0, 5)


def spec(**fields):
    return ModelSpec.read({**SMALL, **fields}, "small.yaml")


@given(SIZES, st.integers(1, 5), SIZES, st.integers(6, 24))
def test_a_pattern_is_found_again_from_its_layers(first, windowed, full, layers):
    pattern = WindowPattern(first_full=first, windowed=windowed, full=full)
    kinds = [pattern.of(layer) for layer in range(layers)]
    found = WindowPattern.from_layers(kinds)
    assert found is not None
    assert [found.of(layer) for layer in range(layers)] == kinds


def test_layers_in_no_regular_order_have_no_pattern():
    assert WindowPattern.from_layers([True, False, False, True, True]) is None


def test_gemma_3_is_a_loop_over_five_windowed_layers_and_a_full_one_and_what_is_left():
    model = spec(sliding_window=4, window_pattern={"windowed": 5, "full": 1})
    assert model.layer_runs == (LayerRun((WINDOWED,) * 5 + (FULL,), 4), LayerRun((WINDOWED,), 2))
    assert model.layer_kinds == {WINDOWED: 22, FULL: 4}
    windowed, full = model.parts
    assert (windowed.layers, windowed.sliding_window, windowed.window_pattern) == (22, 4, None)
    assert (full.layers, full.sliding_window, full.window_pattern) == (4, None, None)


def test_windows_matter_where_they_are_shorter_than_the_sequence():
    model = spec(sliding_window=4)
    assert model.layer_runs == (LayerRun((WINDOWED,), 26),)
    assert model.windows_within(5)
    assert not model.windows_within(4)
    assert not spec().windows_within(2**40)


def test_a_model_without_windows_has_no_keys_for_them():
    plain = spec().model_dump(mode="json")
    assert not {"window_pattern", "post_norms", "unbuilt"} & plain.keys()
    model = spec(sliding_window=4, window_pattern={"windowed": 1, "full": 1}, post_norms=True, unbuilt=["a"])
    assert ModelSpec.model_validate(model.model_dump(mode="json")) == model


def test_a_pattern_needs_a_window():
    with pytest.raises(ValidationError, match="window_pattern names the layers with a window, but sliding_window"):
        ModelSpec.model_validate({**SMALL, "window_pattern": {"windowed": 1, "full": 1}})


@given(st.integers(1, 5000), st.integers(1, 2000), st.integers(1, 9))
def test_a_halo_holds_every_token_that_a_chunk_needs_and_less_than_a_tile_more(window, chunk, chunks):
    pieces = halo_pieces(window, chunk=chunk, chunks=chunks)
    assert all(piece == chunk for piece in pieces[:-1])
    assert sum(pieces) >= min(window - 1, chunk * (chunks - 1))
    assert sum(pieces) < window - 1 + HALO_TILE
    assert len(pieces) < chunks


def test_a_window_of_one_token_needs_no_halo():
    assert halo_pieces(1, chunk=64, chunks=4) == ()
