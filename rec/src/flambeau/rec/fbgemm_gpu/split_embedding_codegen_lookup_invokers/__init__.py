"""What look-ups are told beside tables and bags."""
