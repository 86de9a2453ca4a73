"""Registered weights as they are served: by the service of their task, or by its predictor."""
