"""Answers of jax about devices while a user's step is built: those of the target, in place of this machine's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from math import prod
from pathlib import Path
from typing import Any

BACKENDS = {"cuda": "gpu", "rocm": "gpu", "tpu": "tpu", "cpu": "cpu"}
"""``jax.default_backend()`` by platform of a target."""


@dataclass
class Asked:
    """Questions and callbacks of the user's own files, by line."""

    root: Path
    notes: dict[str, None] = field(default_factory=dict)

    def note(self, words: str) -> None:
        """Keep a note with the line of the user's file that runs; a question of a library is not noted."""
        place = user_line(self.root)
        if place:
            self.notes[f"{place}: {words}"] = None


def user_line(root: Path) -> str:
    """FILE:LINE of the innermost running frame in a file below ``root``; empty if no file of the user runs."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if is_users(frame.f_code.co_filename, root):
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def is_users(filename: str, root: Path) -> bool:
    """Whether a source file is below the step file's folder and is no installed package."""
    path = Path(filename)
    return path.is_relative_to(root) and "site-packages" not in path.parts


@contextmanager
def answering_for(devices: list[Any], *, platform: str, processes: int, asked: Asked) -> Iterator[None]:
    """Let jax answer for ``devices`` inside, and leave out prints and callbacks of ``jax.debug``."""
    import jax
    from jax.experimental import mesh_utils

    backend = BACKENDS[platform]
    patched: dict[str, Any] = {}
    local = devices[: max(1, len(devices) // processes)]
    answers: dict[str, Callable[..., Any]] = {
        "devices": lambda kind=None: devices if kind in (None, backend, platform) else _real(patched, "devices", kind),
        "local_devices": lambda *_, **__: local,
        "device_count": lambda kind=None: (
            len(devices) if kind in (None, backend, platform) else _real(patched, "device_count", kind)
        ),
        "local_device_count": lambda *_, **__: len(local),
        "process_count": lambda *_, **__: processes,
        "process_index": lambda *_, **__: 0,
        "default_backend": lambda: backend,
    }
    for name, answer in answers.items():
        patched[name] = getattr(jax, name)
        setattr(jax, name, wraps(patched[name])(answer))
    silent = {name: getattr(jax.debug, name) for name in ("print", "callback") if hasattr(jax.debug, name)}
    for name in silent:
        setattr(jax.debug, name, _left_out(name, asked))
    makers: list[tuple[Any, str, Any]] = [
        (jax, "make_mesh", jax.make_mesh),
        (mesh_utils, "create_device_mesh", mesh_utils.create_device_mesh),
    ]
    for home, name, real in makers:
        setattr(home, name, _on(real, devices))
    called = [(jax, "pure_callback", jax.pure_callback), (jax.experimental, "io_callback", jax.experimental.io_callback)]
    for home, name, _ in called if platform != "cpu" else ():
        setattr(home, name, _refused(name))
    try:
        yield
    finally:
        for home, name, real in called:
            setattr(home, name, real)
        for home, name, real in makers:
            setattr(home, name, real)
        for name, real in patched.items():
            setattr(jax, name, real)
        for name, real in silent.items():
            setattr(jax.debug, name, real)


def _real(patched: dict[str, Any], name: str, kind: Any) -> Any:
    return patched[name](kind)


def _left_out(name: str, asked: Asked) -> Callable[..., None]:
    def nothing(*_: Any, **__: Any) -> None:
        asked.note(f"jax.debug.{name} is left out: there is no host of the absent devices to call")

    return nothing


def _refused(name: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"callback {name} in a step for absent devices")

    return refuse


def _on(made: Callable[..., Any], devices: list[Any]) -> Callable[..., Any]:
    """A maker of meshes that takes the target's devices where no devices are given."""

    @wraps(made)
    def make(shape: Any, *rest: Any, **options: Any) -> Any:
        given = options.get("devices") is not None or (made.__name__ == "create_device_mesh" and rest)
        if not given:
            options["devices"] = devices[: prod(shape)]
        return made(shape, *rest, **options)

    return make
