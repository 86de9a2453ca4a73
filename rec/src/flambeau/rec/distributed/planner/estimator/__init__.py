"""How long shards take on given hardware."""
