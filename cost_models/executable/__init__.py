"""Time of a compiled program, from the operations of its executable in the order of its schedule."""
