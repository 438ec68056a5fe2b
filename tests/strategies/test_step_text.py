"""What the step never holds and what it never does twice, read from its text."""

import re
from math import prod

import jax
import pytest
from compiled_step import MODEL, compile_on_host, lower_on_host

from lcplan.strategy import Mesh, Strategy


def strategy(**fields):
    return Strategy(gather_dtype="fp32", loss_chunk_tokens=16, **fields)


MIXED = strategy(
    mesh=Mesh(fsdp=2, context=2, tensor=2), scheme="ring-zigzag"
)  # 128 tokens of a context rank, 68 of the vocabulary


def test_logits_exist_a_chunk_at_a_time():
    text = compile_on_host(MIXED)
    assert "f32[16,68]" in text
    assert "[128,68]" not in text


def test_no_device_holds_all_tokens():
    shapes = set(re.findall(r"s32\[([\d,]+)\]", compile_on_host(MIXED)))
    assert "4,32" in shapes  # B/(data, fsdp) T/context
    assert not any("64" in shape.split(",") for shape in shapes)


def test_state_is_donated():
    text = compile_on_host(MIXED)
    aliased = re.search(r"input_output_alias={(.*?)}, entry", text)
    state = len(jax.tree.leaves(lower_on_host(MIXED).args_info)) - 2  # all but tokens and targets
    assert aliased[1].count("alias)") == state


RECOMPUTED = {"full": 5, "save-attention": 5, "save-qkv": 3, "save-except-mlp": 2, "save-all": 0}
"""Matrix products of a layer that run again: query, key and value, out, gate, up; down never."""


@pytest.mark.parametrize("remat", RECOMPUTED)
def test_what_remat_runs_again(remat):
    text = lower_on_host(strategy(mesh=Mesh(), remat=remat)).as_text(dialect="hlo", debug_info=True)
    again = [line for line in text.splitlines() if "rematted_computation" in line]
    assert sum(" dot(" in line for line in again) == RECOMPUTED[remat]
    attention = [line for line in again if " while(" in line]  # the blockwise kernel's loop over query blocks
    assert bool(attention) == (remat == "full")


def test_state_is_three_times_the_models_parameters():
    arguments = jax.tree.leaves(lower_on_host(strategy(mesh=Mesh())).args_info)
    elements = sum(prod(leaf.shape) for leaf in arguments if leaf.dtype == "float32")
    assert elements == 3 * MODEL.parameters  # master parameters and two moments
