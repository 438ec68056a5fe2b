"""How much of the attention square documents, windows and tiles leave."""
