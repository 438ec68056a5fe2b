"""Names that people give to hardware besides the catalogue's own: of GPUs, and of systems with the same figures."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GPUS: Mapping[str, str] = MappingProxyType(
    {
        "a100": "dgx-a100-80",
        "a100-40": "dgx-a100-40",
        "a100-80": "dgx-a100-80",
        "a40": "pcie-a40",
        "a800": "hgx-a800",
        "b200": "dgx-b200",
        "b300": "dgx-b300",
        "gb200": "gb200-nvl72",
        "gb300": "gb300-nvl72",
        "gh200": "gh200",
        "h100": "dgx-h100",
        "h20": "hgx-h20",
        "h200": "dgx-h200",
        "l40s": "pcie-l40s",
        "mi300": "mi300x",
        "mi300x": "mi300x",
        "mi325": "mi325x",
        "mi325x": "mi325x",
        "mi350": "mi350x",
        "mi350x": "mi350x",
        "mi355": "mi355x",
        "mi355x": "mi355x",
    }
)
"""The catalogue's node or rack of each GPU. A number with such a name counts GPUs."""

SYSTEMS: Mapping[str, str] = MappingProxyType(
    {
        "dgx-a100": "dgx-a100-80",
        "dgx-gb200": "gb200-nvl72",
        "dgx-gb300": "gb300-nvl72",
        "gb200-nvl": "gb200-nvl72",
        "gb300-nvl": "gb300-nvl72",
        "hgx-a100": "dgx-a100-80",
        "hgx-b200": "dgx-b200",
        "hgx-h100": "dgx-h100",
        "hgx-h200": "dgx-h200",
        "nvl72": "gb200-nvl72",
    }
)
"""The catalogue's entry of a system that has the same GPUs, links and network. A number with such a name counts systems."""

TPU_WORDS: Mapping[str, str] = MappingProxyType(
    {
        "ironwood": "tpu-7x",
        "trillium": "tpu-v6e",
        "tpu7x": "tpu-7x",
        "tpu-v4-podslice": "tpu-v4",
        "tpu-v5-lite-device": "tpu-v5e",
        "tpu-v5-lite-podslice": "tpu-v5e",
        "tpu-v5p-slice": "tpu-v5p",
        "tpu-v6e-slice": "tpu-v6e",
    }
)
"""TPU generations by the name that Google Cloud gives to them or to GKE's node pools of them."""
