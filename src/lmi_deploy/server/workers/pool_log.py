"""The log of a model's workers: in lmi's words, and in the observed lines of DJLServing 0.36."""

from __future__ import annotations

from lmi_deploy.server import sagemaker_differences
from lmi_deploy.server.log import Log
from lmi_deploy.server.workers.worker_group import Slot, WorkerFailed


class PoolLog:
    """`number` is the model's: DJLServing counts them from 1."""

    def __init__(self, log: Log, model: str, number: int) -> None:
        self._log = log
        self._model = model
        self._shown = f"{model} (M-{number:04d}, READY)"

    def early_request(self) -> None:
        self._log.warn(sagemaker_differences.EARLY, model=self._model)

    def started(self, slot: Slot, device: str) -> None:
        text = f"Starting worker thread {_thread(slot)} for model {self._shown} on device {device}"
        self._log.djl("WorkerThread", text)

    def growing(self, workers: int) -> None:
        self._log.event(sagemaker_differences.ANOTHER, model=self._model, workers=workers)
        self._log.djl("WorkLoadManager", f"Scaling up workers for model {self._shown} to {workers} ")

    def did_not_grow(self, why: Exception) -> None:
        self._log.error("an additional worker did not start", model=self._model, why=why)

    def idle(self, slot: Slot, seconds: float | None) -> None:
        self._log.event("worker idle", model=self._model, pid=slot.session.pid, seconds=seconds)
        self._log.djl("WorkerThread", f"Shutting down temporary worker {_thread(slot)}")

    def adapter_failed(self, name: str, why: str) -> None:
        self._log.error(
            "an adapter could not be registered with a worker", model=self._model, adapter=name, why=why
        )

    def lost(self, slot: Slot, failure: WorkerFailed, *, failures: int, failed: bool) -> None:
        """`failures` of this model, this one among them; `failed`: it was one too many."""
        self._log_loss_like_djl(slot, failure, failures)
        if failed:
            self._log.error(sagemaker_differences.FAILED, model=self._model, why=failure.text)
        else:
            self._log.warn(sagemaker_differences.LOST, model=self._model, why=failure.text, failures=failures)

    def _log_loss_like_djl(self, slot: Slot, failure: WorkerFailed, failures: int) -> None:
        cause = failure.refusal.message or ""
        kind = cause.partition(":")[0]
        self._log.djl("PyProcess", f"predict[init=false] exception: {kind}", level="ERROR")
        self._log.djl("PyProcess", f"Stop process: -1:{slot.session.pid}, failure=true")
        self._log.djl("PyProcess", f"Failure count: {failures - 1}")
        self._log.djl("PyProcess", "Restart python process ...")
        self._log.djl(
            "WorkerThread",
            f"{_thread(slot)}: Server error",
            level="ERROR",
            causes=(f"ai.djl.engine.EngineException: {cause}", f"Caused by: {cause}"),
        )
        self._log.djl("WorkerThread", f"Shutting down temporary worker {_thread(slot)}")


def _thread(slot: Slot) -> str:
    return f"WT-{slot.number:04d}"
