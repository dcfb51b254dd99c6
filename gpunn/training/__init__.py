"""Training: gradients of graphs, losses, optimisers, and the trainer."""
