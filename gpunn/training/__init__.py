"""Training: gradients of graphs, and losses."""
