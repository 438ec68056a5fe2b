"""Hardware as people name it: ``8xh100``, ``h100x8``, ``H100-SXM5-80GB``, ``hgx-h200x2``, ``tpu-v5p-slice``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lcplan.catalog import tpu
from lcplan.catalog.gpu_names import GPUS, SYSTEMS, TPU_WORDS
from lcplan.catalog.named_hardware import find_named
from lcplan.formats.errors import BadInputError
from lcplan.spec.hardware import HardwareSpec

_COUNT_FIRST = re.compile(r"([0-9]{1,6})-?[x*]-?")
_MAKER = re.compile(r"^(?:(?:nvidia|amd|google|instinct|tesla)-)+")
_FORM = re.compile(r"-(?:sxm[0-9]?|oam|hbm[0-9]e?|gpu|gpus)(?=-|x[0-9]|$)")
_SIZE = re.compile(r"-([0-9]{2,3})gb(?=x[0-9]|$)")
_BEFORE = re.compile(r"([0-9]{1,6})x([a-z].*)")
_BEHIND = re.compile(r"(.+?)[x*:]([0-9]{1,6})")


@dataclass(frozen=True)
class Spoken:
    """Hardware that a user named in other words than the catalogue, and how the words were understood."""

    spec: HardwareSpec
    note: str


def spoken(text: str) -> Spoken | None:
    """The hardware that the words mean; None if they mean none.

    >>> spoken("8xH100").note
    "'8xH100' is read as dgx-h100, which has 8 devices"
    >>> spoken("hgx-h200x2").spec.devices
    16

    Raises
    ------
    BadInputError
        A number of GPUs that is no whole number of nodes, or a TPU generation without a size; with the right words.
    """
    words = _plain(text)
    if words in TPU_WORDS:
        family = TPU_WORDS[words]
        raise BadInputError(f"hardware {text!r} needs a slice size behind it, for example {tpu.slice_names(family)[-1]!r}")
    count, name, of_gpus = _counted(words)
    if name in GPUS and (of_gpus or count is None):
        spec = _gpus(text, name, count)
    else:
        spec = find_named(SYSTEMS.get(name, name) + (f"x{count}" if count else ""))
    if spec is None:
        return None
    return Spoken(spec, f"{text!r} is read as {spec.name}, which has {_devices(spec.devices)}")


def _plain(text: str) -> str:
    """The words without case, spaces, maker, form factor and the memory of a GPU that has one size.

    >>> _plain("8 x NVIDIA H100 80GB HBM3"), _plain("A100-SXM4-40GBx16")
    ('8xh100', 'a100-40x16')
    """
    words = re.sub(r"[\s_]+", "-", text.strip().lower())
    counted = _COUNT_FIRST.match(words)
    head, name = (f"{counted[1]}x", words[counted.end() :]) if counted else ("", words)
    name = _FORM.sub("", _MAKER.sub("", name))
    size = _SIZE.search(name)
    if size is None:
        return head + name
    known = f"{name[: size.start()]}-{size[1]}" in GPUS
    return head + (_SIZE.sub(rf"-{size[1]}", name) if known else _SIZE.sub("", name))


def _counted(words: str) -> tuple[int | None, str, bool]:
    """The number, the name, and whether the number counts GPUs.

    It does before any GPU's name, and behind a GPU's name that is no catalogue entry.
    """
    if words in GPUS or words in SYSTEMS:
        return None, words, False
    if before := _BEFORE.fullmatch(words):
        return int(before[1]), before[2], before[2] in GPUS
    if behind := _BEHIND.fullmatch(words):
        return int(behind[2]), behind[1], behind[1] in GPUS and GPUS[behind[1]] != behind[1]
    return None, words, False


def _gpus(text: str, name: str, count: int | None) -> HardwareSpec | None:
    """Whole nodes of ``count`` GPUs."""
    node = find_named(GPUS[name])
    if node is None or count is None:
        return node
    nodes, rest = divmod(count, node.domain_size)
    if rest == 0 and nodes:
        return find_named(f"{node.name}x{nodes}" if nodes > 1 else node.name)
    enough = node.name if nodes == 0 else f"{node.name}x{nodes + 1}"
    devices = f" --devices {count}" if count else ""
    raise BadInputError(
        f"hardware {text!r}: a number with a GPU's name counts GPUs, and {node.name} has {node.domain_size}; "
        f"use --hw {enough}{devices} ({node.name}xN is N times {node.domain_size} GPUs)"
    )


def _devices(count: int) -> str:
    return f"{count} device" + ("" if count == 1 else "s")
