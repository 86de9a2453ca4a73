"""The conformance kit: checks that every plugin passes, and the tools that tests of plugins need."""
