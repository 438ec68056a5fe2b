"""Functions with a backward pass of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax


def with_backward(
    forward: Callable[..., tuple[Any, Any]], backward: Callable[[Any, Any], tuple[Any, ...]]
) -> Callable[..., Any]:
    """The function of value and residuals ``forward(*operands)`` and of gradients ``backward(residuals, cotangent)``.

    Static parameters are bound beforehand (``functools.partial``), so that only operands are left.
    """

    @jax.custom_vjp
    def function(*operands: Any) -> Any:
        return forward(*operands)[0]

    function.defvjp(forward, backward)
    return function
