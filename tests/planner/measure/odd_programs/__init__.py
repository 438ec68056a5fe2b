"""Programs that go wrong in one way each: what a worker must survive. Each stands in for ``strategies.train.step``."""
