"""What the front and its workers say to each other. Nothing here imports torch, or unpickles."""
