"""Small helpers that upstream offers in `tensordict.utils`; what tensordicts are made of does not use them."""
