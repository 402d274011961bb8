"""The files of a transfer job in the bucket are deleted, and no others."""

from __future__ import annotations

from lmi_deploy.targets.sagemaker.transfer_job.perform import clear_job, clear_jobs
from tests.support.fake_store import FakeStore

OURS = (
    "jobs/q-0123456789/in/order.json",
    "jobs/q-0123456789-2/shards/0.json",
    "jobs/q-aaaaaaaaaa/lmi/start.py",
)
THEIRS = (
    "jobs/q-b-0123456789/in/order.json",
    "jobs/q-0123456789-abcdef0123/in/order.json",
    "jobs/qq-0123456789/in/order.json",
    "jobs/q-012345678/x",
    "weights/q-0123456789/x",
)


def store() -> FakeStore:
    existing = FakeStore()
    for key in (*OURS, *THEIRS):
        existing.put(key, b"x")
    return existing


def test_clear_jobs_deletes_every_job_of_the_deployment_only() -> None:
    existing = store()
    clear_jobs(existing, "q")
    assert sorted(existing.objects) == sorted(THEIRS)


def test_clear_job_deletes_every_attempt_of_the_job_only() -> None:
    existing = store()
    clear_job(existing, "q-0123456789")
    assert sorted(existing.objects) == sorted((OURS[2], *THEIRS))
