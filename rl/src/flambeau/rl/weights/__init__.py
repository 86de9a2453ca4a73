"""What is known about pretrained weights: facts alone, nothing here imports torch."""
