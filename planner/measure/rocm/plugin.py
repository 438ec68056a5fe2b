"""Opens XLA's plugin for AMD in a worker: with ROCm's own libraries where they are installed, else with stand-ins."""

from __future__ import annotations

import ctypes
import logging
import os
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from planner.measure.rocm.needs import Needs, needs_of
from planner.measure.rocm.stand_in import StandIn

MODULES = ("jax_plugins.xla_rocm10", "jax_plugins.xla_rocm7")
FILE = "xla_rocm_plugin.so"
DRIVER = Path("/dev/kfd")
"""The device of AMD's driver. Where it is, the plugin may register itself."""
SYSTEM = ("ld-linux", "libc.so", "libdl.so", "libgcc_s.so", "libm.so", "libpthread.so", "librt.so", "libstdc++.so")
"""Libraries of the system. They are never replaced, since a compile runs them."""


@cache
def open_plugin() -> bool:
    """Let jax find the plugin as the platform ``rocm``; return whether stand-ins take the place of ROCm's libraries.

    Must run before jax looks for plugins. The plugin registers itself where it sees a GPU; elsewhere it refuses to, and PJRT's
    own variable names it to jax.

    Raises
    ------
    ImportError
        The plugin is not installed, or does not load.
    """
    path = plugin_file()
    if path is None:
        raise ImportError("XLA for AMD is not installed in this Python: no jax-rocm7-pjrt, no jax-rocm10-pjrt")
    replaced = _load(path)
    if not DRIVER.exists():
        logging.getLogger("jax._src.xla_bridge").setLevel(logging.CRITICAL)  # it logs the refusal as an error, with a traceback
        os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"rocm:{path}"
    return replaced


def plugin_file() -> Path | None:
    """Return the plugin's library in this Python; None where it is not installed."""
    for name in MODULES:
        try:
            spec = find_spec(name)
        except ModuleNotFoundError:
            continue
        if spec is not None and spec.origin is not None:
            return Path(spec.origin).with_name(FILE)
    return None


def _load(path: Path) -> bool:
    """Load the plugin into the process; return whether that took stand-ins."""
    try:
        ctypes.CDLL(str(path))
    except OSError:
        pass
    else:
        return False
    try:
        _load_images(stand_ins(needs_of(path)))
        ctypes.CDLL(str(path))
    except (OSError, ValueError) as error:
        raise ImportError(f"XLA for AMD does not load with stand-ins for ROCm's libraries: {error}") from None
    return True


def stand_ins(needs: Needs) -> tuple[StandIn, ...]:
    """Return a stand-in for each needed library that is not the system's.

    The loader takes a function without a version from any library, so the first stand-in has all of those, apart from the ones
    that a library of the system has.

    Raises
    ------
    OSError
        A library of the system is not installed.
    """
    replaced = [name for name in needs.libraries if not name.startswith(SYSTEM)]
    system = [ctypes.CDLL(name) for name in needs.libraries if name.startswith(SYSTEM)]
    plain = tuple(("", name) for name in needs.plain if not any(hasattr(library, name) for library in system))
    made = []
    for at, soname in enumerate(replaced):
        own = tuple((version, name) for library, version, name in needs.versioned if library == soname)
        made.append(StandIn(soname, own + (plain if at == 0 else ())))
    return tuple(made)


def _load_images(libraries: Iterable[StandIn]) -> None:
    """Load stand-ins from memory: a folder for temporary files may be mounted without the right to run files.

    The files stay open until all are loaded, because the loader takes a second file of the same name for the first.
    """
    with ExitStack() as opened:
        for library in libraries:
            file = opened.enter_context(os.fdopen(os.memfd_create(library.soname), "wb"))
            file.write(library.image())
            file.flush()
            ctypes.CDLL(f"/proc/self/fd/{file.fileno()}")
