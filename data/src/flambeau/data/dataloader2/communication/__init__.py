"""Pipelines in other processes: what runs in a worker, what feeds it, and the pipe that collects the samples.

- `messages`: what is said between the processes.
- `shard`: one copy of a pipeline, with the snapshots from which its state at any sample is told.
- `worker`, `dispatcher`: the main functions of the processes.
- `processes`: starting and ending them, and reading their answers.
- `iter`: `WorkersIterDataPipe`, which gives the workers' samples in turn.
"""
