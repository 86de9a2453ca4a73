"""What upstream keeps here under these names."""
