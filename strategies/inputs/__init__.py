"""The specification that a program is built from."""
