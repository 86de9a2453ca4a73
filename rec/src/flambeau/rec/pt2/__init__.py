"""What code that is compiled or exported by torch has to ask and to tell."""
