"""Many environments as one: the memory they write to, what steps them, and the processes they run in."""
