"""The step as a program over whole arrays: the compiler (``auto``) or the arrays' types (``explicit``) place every part.

All lengths here are global. Only attention writes a collective; ``style`` shows how the two modes differ.
"""

from strategies.whole_array.gradients import GlobalLossAndGradients
from strategies.whole_array.style import Style, mesh_of, style_of

__all__ = ["GlobalLossAndGradients", "Style", "mesh_of", "style_of"]
