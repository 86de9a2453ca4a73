"""Helpers of programs around tables: files, environment, libraries of operators, gradients of written rows."""
