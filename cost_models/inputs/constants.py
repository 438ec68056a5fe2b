"""Constants that were fitted on published end-to-end rows, each with the tables that it was fitted on.

Rates that were fitted on microbenchmarks are in data/device_rates.json. A constant is here if no microbenchmark shows it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True)
class Fitted:
    """A constant with its origin: its unit, the range that a fit may search, and the tables that it was fitted on."""

    name: str
    value: float
    unit: str
    low: float
    high: float
    fitted_on: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Constants:
    """Values of the fitted constants that cost models read. Fields are the names in data/constants.yaml.

    Source: data/constants.yaml, which names the rows that each was fitted on.
    """

    nccl_ring_contention: float
    """Time that concurrent NCCL permutes add to attention kernels, over the kernels' own time, where tensor exceeds 1."""

    launch_host_s: float
    """Host time of one operation that a PyTorch process launches during training, with its part of autograd's graph [s]."""

    eager_attention_call_s: float
    """Host time of one ring step, or of one exchange of heads, where PyTorch launches attention's operations one by one [s]."""

    tile_mask_share: float
    """Cost of masking a causal block in a kernel that masks tile by tile, as a share of a full block's time."""

    open_torus_gather: float
    """Bandwidth of decode's weight gathers over a torus without wraparound, as a share of all links that they span."""

    tpu_row_s: float
    """Time that a TPU takes to move one row by its index, in addition to the time for its bytes [s]."""

    def changed(self, values: dict[str, float]) -> Constants:
        """Return these constants with some values replaced, for a fit to try."""
        return replace(self, **values)


@lru_cache(maxsize=1)
def _fitted() -> dict[str, Fitted]:
    text = resources.files("cost_models").joinpath("data/constants.yaml").read_text(encoding="utf-8")
    data: list[dict[str, Any]] = yaml.safe_load(text)
    found = [Fitted(**{**entry, "fitted_on": tuple(entry["fitted_on"])}) for entry in data]
    assert {entry.name for entry in found} == {field.name for field in fields(Constants)}
    return {entry.name: entry for entry in found}


@lru_cache(maxsize=1)
def published_constants() -> Constants:
    """Return the values of data/constants.yaml.

    Parameters
    ----------
    None.

    Returns
    -------
    Constants
        Each in the unit that the file states [unit].

    Notes
    -----
    Source: data/constants.yaml.
    """
    return Constants(**{name: entry.value for name, entry in _fitted().items()})


def fitted_on(table: str) -> tuple[Fitted, ...]:
    """Return the constants that were fitted on rows of the published table ``table``.

    Parameters
    ----------
    table : str
        Name of a published table.

    Returns
    -------
    tuple of Fitted
        In the file's order [no unit].

    Notes
    -----
    Source: data/constants.yaml.
    """
    return tuple(entry for entry in _fitted().values() if table in entry.fitted_on)
