"""Programs that give models to servers."""
