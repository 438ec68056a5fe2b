"""Programs that go wrong in one way each: what a worker must survive. Each module stands where ``strategies.step`` does."""
