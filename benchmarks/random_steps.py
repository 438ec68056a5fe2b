"""Random valid steps, the same for the same seed: the inputs on which modelled and compiled memory are compared.

Each step is drawn in two parts: a workload with one feature (plain, tied embeddings, an odd vocabulary, a mixture of experts,
offloaded activations, windows) at a random length, batch and device count; then one of the strategies that keep every rule
and fit the budget, each equally likely. Depth is cut to a few layers, which changes neither the buffers of a layer nor the
time of a compile; widths and vocabularies are those of the catalogue.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from lcplan.catalog import model as catalogued
from lcplan.formats.errors import BadInputError
from lcplan.spec.model import ModelSpec
from lcplan.strategy.remat import REMAT_POLICIES
from planner.cli.build import RequestOptions, build_request
from planner.request.request import SearchRequest
from planner.workloads.points import analyse

SEED = 17
PLACES = {
    "gpu": ("dgx-h100", "dgx-h100x2", "dgx-b200", "gb200-nvl72"),
    "tpu": ("tpu-v5p-8", "tpu-v5p-16", "tpu-v5e-8", "tpu-v6e-8"),
}
FEATURES = ("plain", "tied", "odd", "experts", "offload") * 3 + ("plain", "tied", "odd", "offload", "windows")
"""The features of twenty steps."""
MODELS = {
    "plain": ("llama3-8b", "qwen3-8b", "llama3.1-70b", "llama2-13b", "mistral-7b-v0.3"),
    "tied": ("qwen3-1.7b", "llama3.2-3b", "llama3.2-1b", "qwen3-4b", "qwen2.5-3b"),
    "odd": ("llama3-8b", "qwen3-8b", "qwen3-1.7b", "llama3.2-3b"),
    "experts": ("qwen3-30b-a3b", "mixtral-8x7b", "deepseek-moe-16b"),
    "offload": ("llama3-8b", "qwen3-8b", "llama3.1-70b", "qwen3-4b"),
    "windows": ("mistral-7b-v0.1", "gpt-oss-20b"),
}
ODD_VOCABULARIES = (50257, 32003, 49155, 151669, 100277, 65537, 129281, 200019)
"""Of GPT-2, Llama with three more tokens, StarCoder 2, Qwen 3's tokenizer, cl100k, 2**16 + 1, DeepSeek V3 with one more,
o200k: sizes that no power of two above 2 divides, but for the fourth's and the last's prime factors."""
LENGTHS = tuple(2**power for power in range(13, 19))
LAYERS = (4, 6, 8)
MOST_TOKENS = 2**20
"""Tokens of a global batch: enough for several microbatches."""
_OFFLOADING = tuple(name for name, policy in REMAT_POLICIES.items() if policy.offloaded)
_KEEPING = tuple(name for name, policy in REMAT_POLICIES.items() if not policy.offloaded)


def points(kind: str, *, seed: int = SEED) -> Iterator[dict[str, Any]]:
    """Twenty steps for ``kind`` of device, in the format of benchmarks/compile_grid.json."""
    draw = random.Random(f"{seed}-{kind}")  # noqa: S311 a draw that anyone can repeat
    for feature in FEATURES:
        yield next(point for _ in range(1000) if (point := _point(kind, feature, draw)))


def _point(kind: str, feature: str, draw: random.Random) -> dict[str, Any] | None:
    """One step, or None where the draw has no strategy that fits."""
    name = draw.choice(MODELS[feature])
    changes: dict[str, Any] = {"layers": draw.choice(LAYERS)}
    if feature == "odd":
        changes["vocab"] = draw.choice(ODD_VOCABULARIES)
    seq_len = draw.choice(LENGTHS)
    batch = 2 ** draw.randint(0, (MOST_TOKENS // seq_len).bit_length() - 1)
    place, devices = draw.choice(PLACES[kind]), 2 ** draw.randint(2, 4)
    remat = draw.choice(_OFFLOADING if feature == "offload" else _KEEPING)
    sizes = {"hw": place, "seq": seq_len, "global_batch": batch, "devices": devices}
    request = _request(name, changes, sizes | {"remat": (remat,)})
    if request is None:
        return None
    analysis = analyse(request, request.hardware.backends[:1])
    rows = np.flatnonzero(analysis.estimates.fits)
    if not len(rows):
        return None
    strategy = analysis.table.strategy(int(draw.choice(rows)))
    return {
        "model": name,
        "changes": changes,
        "hardware": place,
        "seq_len": seq_len,
        "global_batch": batch,
        "strategy": strategy.model_dump(mode="json", exclude_defaults=True),
    }


def _request(name: str, changes: dict[str, Any], options: dict[str, Any]) -> SearchRequest | None:
    model = ModelSpec.model_validate(catalogued(name).model_dump() | changes)
    try:
        return build_request(RequestOptions(model=model, **options))
    except BadInputError:
        return None
