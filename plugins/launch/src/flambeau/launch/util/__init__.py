"""Small tools that components and schedulers share."""
