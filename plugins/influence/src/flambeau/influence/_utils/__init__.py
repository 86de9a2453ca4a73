"""What the methods share: results, checkpoints, nearest neighbours."""
