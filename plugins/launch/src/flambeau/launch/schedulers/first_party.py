"""The schedulers of this distribution, each a plugin of its own as any other distribution's would be."""

from __future__ import annotations

from flambeau.launch.plugins import SchedulerPlugin

__all__ = [
    "AWS_BATCH",
    "AWS_SAGEMAKER",
    "GCP_BATCH",
    "JOBSET",
    "KUBERNETES",
    "KUBERNETES_JOB",
    "KUBERNETES_MCAD",
    "LOCAL_CWD",
    "LOCAL_DIR",
    "LOCAL_DOCKER",
    "LSF",
    "RAY",
    "SLURM",
]

_ROOM = "flambeau.launch.schedulers"

LOCAL_DOCKER = SchedulerPlugin(
    "local_docker",
    f"{_ROOM}.docker_scheduler:create_scheduler",
    "containers on this machine",
    ("docker",),
    (),
    "docker",
)
LOCAL_CWD = SchedulerPlugin("local_cwd", f"{_ROOM}.local_scheduler:create_scheduler", "processes in the current folder")
LOCAL_DIR = SchedulerPlugin(
    "local_dir", f"{_ROOM}.local_scheduler:create_directory_scheduler", "processes in the folder that the image names"
)
SLURM = SchedulerPlugin(
    "slurm", f"{_ROOM}.slurm_scheduler:create_scheduler", "batch jobs of Slurm", (), ("sbatch", "scontrol")
)
KUBERNETES = SchedulerPlugin(
    *("kubernetes", f"{_ROOM}.kubernetes_scheduler:create_scheduler", "jobs of Volcano on Kubernetes"),
    *(("kubernetes",), (), "kubernetes"),
)
KUBERNETES_JOB = SchedulerPlugin(
    *("kubernetes_job", f"{_ROOM}.kubernetes_job_scheduler:create_scheduler", "plain indexed jobs of Kubernetes"),
    *(("kubernetes",), (), "kubernetes"),
)
JOBSET = SchedulerPlugin(
    *("kubernetes_jobset", f"{_ROOM}.kubernetes_jobset_scheduler:create_scheduler", "JobSets on Kubernetes"),
    *(("kubernetes",), (), "kubernetes"),
)
KUBERNETES_MCAD = SchedulerPlugin(
    *("kubernetes_mcad", f"{_ROOM}.kubernetes_mcad_scheduler:create_scheduler", "AppWrappers of MCAD on Kubernetes"),
    *(("kubernetes",), (), "kubernetes"),
)
AWS_BATCH = SchedulerPlugin(
    "aws_batch", f"{_ROOM}.aws_batch_scheduler:create_scheduler", "jobs of AWS Batch", ("boto3",), (), "aws"
)
AWS_SAGEMAKER = SchedulerPlugin(
    *("aws_sagemaker", f"{_ROOM}.aws_sagemaker_scheduler:create_scheduler", "training jobs of Amazon SageMaker"),
    *(("boto3",), (), "aws"),
)
GCP_BATCH = SchedulerPlugin(
    *("gcp_batch", f"{_ROOM}.gcp_batch_scheduler:create_scheduler", "jobs of Google Cloud Batch"),
    *(("google.cloud.batch_v1",), (), "gcp"),
)
RAY = SchedulerPlugin("ray", f"{_ROOM}.ray_scheduler:create_scheduler", "jobs of a Ray cluster", ("ray",), (), "ray")
LSF = SchedulerPlugin("lsf", f"{_ROOM}.lsf_scheduler:create_scheduler", "batch jobs of IBM Spectrum LSF", (), ("bsub",))
