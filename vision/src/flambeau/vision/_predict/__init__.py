"""The predictors of `flambeau.vision.predict`, one file each, and what they share."""
