"""Executables that a compile for the devices at hand keeps for the timing of the same program.

jax's own persistent cache keeps them, in a folder of each program. A compile empties the folder first, since an executable
that is read back has lost part of its text. Where a folder is damaged (a full disk, half of a file), jax compiles as if
there were no cache.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def kept_in(folder: str | None, *, anew: bool) -> Iterator[None]:
    """Keep the executables of compiles inside in ``folder``, and read them from it unless ``anew``; None: neither."""
    if folder is None:
        yield
        return
    if anew:
        shutil.rmtree(folder, ignore_errors=True)
    _set(folder)
    try:
        yield
    finally:
        _set(None)


def _set(folder: str | None) -> None:
    import jax
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()
    settings: dict[str, Any] = {
        "jax_compilation_cache_dir": folder,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": 0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)
