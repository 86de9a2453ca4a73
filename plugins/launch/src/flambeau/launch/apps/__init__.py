"""Programs that components run."""
