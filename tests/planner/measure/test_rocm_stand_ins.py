"""Stand-ins for ROCm's libraries: ELF files of our own that the system's loader takes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from numpy._core import _multiarray_umath

from planner.measure.rocm.needs import Needs, NotElfError, needs_of
from planner.measure.rocm.plugin import SYSTEM, stand_ins
from planner.measure.rocm.stand_in import FAILS, StandIn

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the plugin for AMD is a Linux library")
CC = shutil.which("cc")


def loaded(library: StandIn, folder: Path) -> ctypes.CDLL:
    file = folder / library.soname
    file.write_bytes(library.image())
    return ctypes.CDLL(str(file))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 9, 64])
def test_every_function_is_found_and_no_other(tmp_path: Path, count: int) -> None:
    # Tables begin at multiples of 16, so each count ends its tables elsewhere.
    names = [f"function_{at}" for at in range(count)]
    library = loaded(StandIn(f"libcount{count}.so.1", tuple(("", name) for name in names)), tmp_path)
    assert [getattr(library, name)() for name in names] == [FAILS] * count
    assert not hasattr(library, "function_of_nobody")


def test_failures_are_the_ones_that_callers_expect(tmp_path: Path) -> None:
    functions = (("HIP_4.2", "hipInit"), ("HIP_4.2", "hipGetErrorString"), ("", "numa_available"))
    library = loaded(StandIn("libfails.so.1", functions), tmp_path)
    library.hipGetErrorString.restype = ctypes.c_char_p
    assert library.hipInit(0) == FAILS
    assert library.hipGetErrorString(0) == b"lcplan's stand-in for ROCm"
    assert library.numa_available() == -1


def test_a_version_is_found_under_its_name_alone(tmp_path: Path) -> None:
    library = loaded(StandIn("libversions.so.1", (("V_1", "first"), ("V_2", "second"))), tmp_path)
    find = ctypes.CDLL(None).dlvsym
    find.restype, find.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)
    assert find(library._handle, b"first", b"V_1")
    assert find(library._handle, b"second", b"V_2")
    assert find(library._handle, b"first", b"V_2") is None


def test_the_needs_of_a_real_library() -> None:
    needs = needs_of(Path(_multiarray_umath.__file__))
    assert "libc.so.6" in needs.libraries
    assert {library for library, _, _ in needs.versioned} <= set(needs.libraries)
    assert any(name.startswith("Py") for name in needs.plain)  # the interpreter's own functions have no version


@pytest.mark.parametrize("content", [b"", b"\x7fELF\x01\x01" + bytes(60), b"#!/bin/sh\n", b"\x7fELF\x02\x01" + bytes(10)])
def test_what_is_no_library_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(NotElfError, match="no shared library of x86-64 Linux"):
        needs_of(tmp_path / "file")


def test_libraries_of_the_system_are_not_replaced() -> None:
    needs = Needs(
        ("libamdhip64.so.7", "librccl.so.1", "libc.so.6"), (("libc.so.6", "GLIBC_2.2.5", "malloc"),), ("malloc", "ncclSend")
    )
    hip, rccl = stand_ins(needs)
    assert (hip.soname, rccl.soname) == ("libamdhip64.so.7", "librccl.so.1")
    assert hip.functions == (("", "ncclSend"),)  # the loader takes it from any library; malloc is libc's
    assert rccl.functions == ()
    assert all(not name.startswith(SYSTEM) for name in ("libamdhip64.so.7", "librocblas.so.5", "libMIOpen.so.1"))


@pytest.mark.skipif(CC is None, reason="no C compiler")
def test_a_library_loads_without_the_one_that_it_was_linked_to(tmp_path: Path) -> None:
    def compiled(name: str, code: str, *options: str) -> None:
        (tmp_path / f"{name}.c").write_text(code)
        subprocess.run([str(CC), "-shared", "-fPIC", f"{name}.c", "-o", f"lib{name}.so.1", *options], cwd=tmp_path, check=True)

    (tmp_path / "map").write_text("OLD_1 { global: old; };\nNEW_2 { global: fresh; };\n")
    compiled(
        "gone", "int old(void){return 1;} int fresh(void){return 2;}", "-Wl,-soname,libgone.so.1", "-Wl,--version-script=map"
    )
    compiled("kept", "int old(void); int fresh(void); int sum(void){return old() + fresh();}", "./libgone.so.1")
    (tmp_path / "libgone.so.1").unlink()
    kept = tmp_path / "libkept.so.1"
    needs = needs_of(kept)
    assert {("libgone.so.1", "OLD_1", "old"), ("libgone.so.1", "NEW_2", "fresh")} <= set(needs.versioned)
    with pytest.raises(OSError, match=r"libgone\.so\.1"):
        ctypes.CDLL(str(kept))
    (library,) = stand_ins(needs)
    held = loaded(library, tmp_path)
    assert ctypes.CDLL(str(kept)).sum() == 2 * FAILS
    assert held
