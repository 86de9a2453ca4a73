"""What tables tell of themselves while they train: durations, amounts of data, their input."""
