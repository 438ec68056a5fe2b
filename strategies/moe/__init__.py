"""A mixture of experts in place of the feed-forward layer, its experts split over the ``expert`` axis."""
