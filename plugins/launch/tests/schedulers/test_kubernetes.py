"""Kubernetes: what is sent passes the real schemas, and what comes back is understood."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("kubernetes")
pytest.importorskip("kubernetes_validate")
sys.path.insert(0, str(Path(__file__).parent))

from kubernetes import client
from kubernetes_server import Server, pod_templates, validate

from flambeau.launch.components.dist import ddp
from flambeau.launch.errors import JobExists, LogsUnavailable, SchedulerError
from flambeau.launch.runner import Runner
from flambeau.launch.schedulers import get_scheduler_factories
from flambeau.launch.specs import AppDef, AppState, Resource, RetryPolicy, Role

KINDS = {
    "kubernetes": {"queue": "q"},
    "kubernetes_job": {},
    "kubernetes_jobset": {},
    "kubernetes_mcad": {"image_secret": "s", "coscheduler_name": "c", "network": "n"},
}
MOUNTS = ["type=bind", "src=/a", "dst=/b", "readonly", "type=volume", "src=v", "dst=/v", "type=device", "src=/dev/x"]


@pytest.fixture
def server():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def runner(server):
    configuration = client.Configuration()
    configuration.host = server.url
    configuration.retries = 0
    with Runner(
        "torchx", get_scheduler_factories(), scheduler_params={"client": client.ApiClient(configuration)}
    ) as made:
        yield made


def training(**options):
    return ddp(
        "--lr", "0.1", script="train.py", j="2x2", max_retries=2, gpu=1, env={"A": "b c"}, mounts=MOUNTS, **options
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_that_the_real_schema_accepts_is_made_and_found(runner, kind):
    handle = runner.run(training(), kind, KINDS[kind])
    assert runner.status(handle).state is AppState.PENDING
    assert runner.status(handle + "x") is None


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_printed_is_what_kubectl_takes(runner, kind):
    info = runner.dryrun(training(), kind, KINDS[kind])
    objects = list(yaml.safe_load_all(runner._scheduler(kind).request_text(info)))
    for one in objects:
        validate(one)
    assert objects[0] == info.request.resource


def test_a_misspelled_field_would_be_refused():
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "imagee": "x"}]}}
    with pytest.raises(Exception, match="imagee"):
        validate({"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "spec": {"tasks": [{"template": pod}]}})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a; touch x", "UPPER_case", "x" * 90, "9starts", "ünï", "$(x)"])
def test_whatever_the_name_objects_have_one_that_kubernetes_takes(runner, kind, name):
    runner.run(
        AppDef(name, [Role("Role_" + name[:20], "i", entrypoint="e", resource=Resource(1, 0, 10))]), kind, KINDS[kind]
    )


def test_the_first_replica_is_at_home_and_the_others_find_it(runner):
    for kind, variable in (("kubernetes", "VC_TRAIN_0_HOSTS"), ("kubernetes_mcad", "TORCHX_MCAD_TRAIN_0_HOSTS")):
        first, second = pod_templates(runner.dryrun(training(), kind, KINDS[kind]).request.resource)
        assert "${TORCHX_RANK0_HOST:=localhost}" in first["spec"]["containers"][0]["command"][2]
        assert f"${{{variable}:=localhost}}" in second["spec"]["containers"][0]["command"][2]


def test_pods_of_a_plain_job_find_the_first_one_by_its_service(runner):
    request = runner.dryrun(training(), "kubernetes_job").request
    job, service = request.resource, request.service
    (pod,) = pod_templates(job)
    name = job["metadata"]["name"]
    assert pod["spec"]["subdomain"] == service["metadata"]["name"] == name
    env = {one["name"]: one.get("value") for one in pod["spec"]["containers"][0]["env"]}
    assert env["FLAMBEAU_RANK0_HOST"] == f"{name}-0.{name}"
    assert (job["spec"]["completionMode"], job["spec"]["completions"], job["spec"]["backoffLimit"]) == ("Indexed", 2, 4)
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()


def test_several_roles_are_a_set_of_jobs_and_not_a_plain_one(runner):
    roles = [
        Role(name, "i", entrypoint="e", resource=Resource(1, 0, 10), num_replicas=2) for name in ("trainer", "reader")
    ]
    with pytest.raises(ValueError, match="kubernetes_jobset"):
        runner.dryrun(AppDef("job", roles), "kubernetes_job")
    spec = runner.dryrun(AppDef("job", roles), "kubernetes_jobset").request.resource["spec"]
    assert [job["name"] for job in spec["replicatedJobs"]] == ["trainer", "reader"]


def test_retries_follow_the_policy_of_the_role(runner):
    role = Role("r", "i", entrypoint="e", max_retries=3, resource=Resource(1, 0, 10))
    (task,) = runner.dryrun(AppDef("job", [role]), "kubernetes", {"queue": "q"}).request.resource["spec"]["tasks"]
    assert (task["maxRetry"], [one["event"] for one in task["policies"]]) == (3, ["PodEvicted", "PodFailed"])
    role.retry_policy = RetryPolicy.REPLICA
    (task,) = runner.dryrun(AppDef("job", [role]), "kubernetes", {"queue": "q"}).request.resource["spec"]["tasks"]
    assert task["policies"] == []


def started(runner, server, kind="kubernetes", status=None):
    handle = runner.run(training(), kind, KINDS[kind])
    name = handle.rpartition(":")[2]
    plural = {
        "kubernetes": "jobs",
        "kubernetes_job": "jobs",
        "kubernetes_jobset": "jobsets",
        "kubernetes_mcad": "appwrappers",
    }
    server.objects[plural[kind], "default", name]["status"] = status
    labels = {"app.kubernetes.io/instance": name, "torchx.pytorch.org/role-name": "train"}
    for number in (0, 1):
        server.pod(
            f"{name}-{number}",
            {**labels, "torchx.pytorch.org/replica-id": str(number)},
            "Running",
            f"line {number}\nlast".encode(),
        )
    return handle


STATES = [
    ("kubernetes", None, "PENDING"),
    ("kubernetes", {"state": {"phase": "Running"}}, "RUNNING"),
    ("kubernetes", {"state": {"phase": "Completed"}}, "SUCCEEDED"),
    ("kubernetes", {"state": {"phase": "Aborted"}}, "CANCELLED"),
    ("kubernetes", {"state": {"phase": "New"}}, "UNKNOWN"),
    ("kubernetes_job", {"active": 2}, "RUNNING"),
    ("kubernetes_job", {"conditions": [{"type": "Complete", "status": "True"}]}, "SUCCEEDED"),
    ("kubernetes_job", {"conditions": [{"type": "Failed", "status": "True", "message": "limit"}]}, "FAILED"),
    ("kubernetes_jobset", {"replicatedJobsStatus": [{"name": "train", "active": 1}]}, "RUNNING"),
    ("kubernetes_jobset", {"conditions": [{"type": "Completed", "status": "True"}]}, "SUCCEEDED"),
    ("kubernetes_mcad", {"state": "Completed"}, "SUCCEEDED"),
    ("kubernetes_mcad", {"running": 2, "state": "Running"}, "RUNNING"),
]


@pytest.mark.parametrize(("kind", "status", "expected"), STATES)
def test_states_are_understood(runner, server, kind, status, expected):
    about = runner.status(started(runner, server, kind, status))
    assert about.state.name == expected
    assert [(one.id, one.state.name) for one in about.roles[0].replicas] == [(0, "RUNNING"), (1, "RUNNING")]


def test_logs_are_those_of_the_replicas_newest_pod(runner, server):
    handle = started(runner, server)
    name = handle.rpartition(":")[2]
    old = dict(server.objects["pods", "default", f"{name}-1"]["metadata"]["labels"])
    server.pod("again", old, "Running", b"second attempt\n", created=9)
    assert list(runner.log_lines(handle, "train", 0)) == ["line 0\n", "last"]
    assert list(runner.log_lines(handle, "train", 1)) == ["second attempt\n"]
    with pytest.raises(LogsUnavailable, match="no pod of train/5"):
        list(runner.log_lines(handle, "train", 5))


@pytest.mark.parametrize("kind", KINDS)
def test_cancelled_jobs_go_or_say_so(runner, server, kind):
    handle = started(runner, server, kind)
    runner.cancel(handle)
    status = runner.status(handle)
    assert status is None or status.state is AppState.CANCELLED


def test_a_name_that_is_taken_is_told(runner):
    info = runner.dryrun(training(), "kubernetes", {"queue": "q"})
    runner.schedule(info)
    with pytest.raises(JobExists, match="already exists"):
        runner.schedule(info)


def test_a_cluster_that_does_not_answer_is_told_in_one_line():
    configuration = client.Configuration()
    configuration.host, configuration.retries = "http://127.0.0.1:1", 0
    with Runner("s", get_scheduler_factories(), scheduler_params={"client": client.ApiClient(configuration)}) as runner:
        with pytest.raises(SchedulerError, match="cannot be reached") as caught:
            runner.run(training(), "kubernetes", {"queue": "q"})
        assert "\n" not in str(caught.value)


def test_no_cluster_is_needed_to_print_a_request_and_its_absence_is_told_when_it_is(monkeypatch):
    monkeypatch.setenv("KUBECONFIG", "nowhere")
    with Runner("s", get_scheduler_factories()) as runner:
        info = runner.dryrun(training(), "kubernetes", {"queue": "q"})
        with pytest.raises(SchedulerError, match="no Kubernetes cluster is configured"):
            runner.schedule(info)


def test_images_that_were_built_here_need_a_repository(runner):
    application = training(image="sha256:abc")
    with pytest.raises(ValueError, match="image_repo"):
        runner.dryrun(application, "kubernetes", {"queue": "q"})
    info = runner.dryrun(application, "kubernetes", {"queue": "q", "image_repo": "registry/x"})
    assert info.request.images_to_push == {"sha256:abc": ("registry/x", "abc")}
    assert pod_templates(info.request.resource)[0]["spec"]["containers"][0]["image"] == "registry/x:abc"
