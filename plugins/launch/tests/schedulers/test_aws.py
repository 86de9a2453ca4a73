"""AWS Batch and SageMaker against moto, which answers as AWS does."""

from __future__ import annotations

import pytest

from flambeau.launch.components.dist import ddp
from flambeau.launch.components.utils import echo
from flambeau.launch.errors import LogsUnavailable, SchedulerError
from flambeau.launch.schedulers.aws_batch_scheduler import (
    resource_from_resource_requirements,
    resource_requirements_from_resource,
)
from flambeau.launch.specs import AppDef, AppState, Resource, Role

boto3 = pytest.importorskip("boto3")
moto = pytest.importorskip("moto")


@pytest.fixture
def aws(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with moto.mock_aws(config={"batch": {"use_docker": False}}):
        yield


@pytest.fixture
def queue(aws):
    ec2, iam, batch = boto3.client("ec2"), boto3.client("iam"), boto3.client("batch")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/24")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/25")["Subnet"]["SubnetId"]
    group = ec2.create_security_group(GroupName="g", Description="g", VpcId=vpc)["GroupId"]
    role = iam.create_role(RoleName="r", AssumeRolePolicyDocument="{}")["Role"]["Arn"]
    environment = batch.create_compute_environment(
        computeEnvironmentName="machines", type="UNMANAGED", state="ENABLED", serviceRole=role
    )["computeEnvironmentArn"]
    batch.create_job_queue(
        jobQueueName="jobs", state="ENABLED", priority=1,
        computeEnvironmentOrder=[{"order": 1, "computeEnvironment": environment}],
    )  # fmt: skip
    assert subnet and group
    return "jobs"


def test_a_job_of_several_nodes_is_made_found_and_cancelled(runner, queue):
    handle = runner.run(ddp(script="t.py", j="2x1", gpu=1, max_retries=2), "aws_batch", {"queue": queue})
    assert handle.startswith(f"aws_batch://torchx/{queue}:t-")
    status = runner.status(handle)
    assert status.state in (AppState.PENDING, AppState.RUNNING, AppState.SUCCEEDED)
    (role,) = runner._scheduler("aws_batch").describe(handle.rpartition("/")[2]).roles
    assert (role.name, role.num_replicas, role.entrypoint, role.resource) == ("t", 2, "bash", Resource(2, 1, 1024))
    assert handle in [one.app_handle for one in runner.list("aws_batch")]
    runner.cancel(handle)


def test_the_main_node_is_where_the_others_meet(runner):
    job = runner.dryrun(ddp(script="t.py", j="2x1"), "aws_batch", {"queue": "q"}).request
    container = job.job_def["nodeProperties"]["nodeRangeProperties"][0]["container"]
    assert "${AWS_BATCH_JOB_MAIN_NODE_PRIVATE_IPV4_ADDRESS:=localhost}:29500" in container["command"][2]


@pytest.mark.parametrize("name", ["a; touch x", "with space", "$(x)", "x" * 200])
def test_whatever_the_name_batch_gets_one_that_it_takes(runner, queue, name):
    handle = runner.run(
        AppDef(name, [Role("r", "i", entrypoint="e", resource=Resource(1, 0, 10))]), "aws_batch", {"queue": queue}
    )
    assert runner.status(handle) is not None


def test_unknown_queues_and_jobs_are_told_in_one_line(runner, queue):
    with pytest.raises(SchedulerError, match="AWS refuses") as caught:
        runner.run(echo(), "aws_batch", {"queue": "nowhere"})
    assert "\n" not in str(caught.value)
    assert runner.status(f"aws_batch://torchx/{queue}:nobody") is None
    with pytest.raises(SchedulerError, match="QUEUE:NAME"):
        runner.status("aws_batch://torchx/nobody")


def test_logs_are_read_event_by_event(runner, queue, monkeypatch):
    import time

    handle = runner.run(echo(), "aws_batch", {"queue": queue})
    logs = boto3.client("logs")
    logs.create_log_group(logGroupName="/aws/batch/job")
    logs.create_log_stream(logGroupName="/aws/batch/job", logStreamName="s")
    now = int(time.time() * 1000)
    logs.put_log_events(
        logGroupName="/aws/batch/job", logStreamName="s",
        logEvents=[{"timestamp": now + n, "message": f"line {n}"} for n in range(3)],
    )  # fmt: skip
    monkeypatch.setattr(runner._scheduler("aws_batch"), "_stream", lambda job, role, k: "s")
    assert list(runner.log_lines(handle, "echo", regex="[12]")) == ["line 1\n", "line 2\n"]
    monkeypatch.setattr(runner._scheduler("aws_batch"), "_stream", lambda job, role, k: "gone")
    with pytest.raises(LogsUnavailable, match="no stream gone"):
        list(runner.log_lines(handle, "echo"))


@pytest.mark.parametrize("resource", [Resource(1, 0, 4), Resource(8, 2, 1024)])
def test_resources_go_to_batch_and_back(resource):
    assert resource_from_resource_requirements(resource_requirements_from_resource(resource)) == resource


def test_without_a_region_it_is_told(runner, monkeypatch):
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SchedulerError, match="region"):
        runner.run(echo(), "aws_batch", {"queue": "q"})


SAGEMAKER = {"role": "arn:aws:iam::123456789012:role/sagemaker", "instance_type": "ml.p4d.24xlarge"}


def test_a_training_job_is_made_found_listed_and_stopped(runner, aws):
    cfg = {
        **SAGEMAKER,
        "output_path": "s3://bucket/x",
        "tags": {"team": "a"},
        "subnets": ["subnet-1"],
        "security_group_ids": ["sg-1"],
    }
    handle = runner.run(ddp("--lr", "1", script="t.py", j="2x8", max_retries=2), "aws_sagemaker", cfg)
    about = boto3.client("sagemaker").describe_training_job(TrainingJobName=handle.rpartition("/")[2])
    assert about["AlgorithmSpecification"]["ContainerEntrypoint"] == ["bash"]
    assert about["ResourceConfig"]["InstanceCount"] == 2
    assert runner.status(handle).state in (AppState.RUNNING, AppState.SUCCEEDED)
    assert handle in [one.app_handle for one in runner.list("aws_sagemaker")]
    assert runner.status("aws_sagemaker://torchx/nobody") is None


def test_machines_know_where_the_first_one_is(runner):
    definition = runner.dryrun(ddp(script="t.py", j="2x8"), "aws_sagemaker", SAGEMAKER).request.job_def
    assert definition["Environment"]["TORCHX_RANK0_HOST"] == "algo-1"
    assert "${TORCHX_RANK0_HOST:=localhost}" in definition["AlgorithmSpecification"]["ContainerArguments"][1]


def test_results_go_to_the_accounts_bucket_where_no_other_is_named(runner, aws):
    handle = runner.run(echo(), "aws_sagemaker", SAGEMAKER)
    about = boto3.client("sagemaker").describe_training_job(TrainingJobName=handle.rpartition("/")[2])
    assert about["OutputDataConfig"]["S3OutputPath"].startswith("s3://sagemaker-us-east-1-")


def test_several_roles_are_refused_by_sagemaker(runner, aws):
    with pytest.raises(ValueError, match="have one"):
        runner.dryrun(AppDef("a", [*echo().roles, *echo().roles]), "aws_sagemaker", SAGEMAKER)
