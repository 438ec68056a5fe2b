"""The space of strategies: enumerate, reject, price, choose survivors."""
