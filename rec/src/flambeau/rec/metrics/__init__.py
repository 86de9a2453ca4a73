"""RecMetrics: values of recommendation models over all examples, and over a window of the latest ones."""
