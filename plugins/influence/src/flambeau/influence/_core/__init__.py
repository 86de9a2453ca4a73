"""The methods, in modules that are called as captum's."""
