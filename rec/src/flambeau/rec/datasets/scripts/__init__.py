"""Programs that prepare Criteo's files: text to arrays, arrays to contiguous ids, days to one shuffled set."""
