"""One call to S3: the expected owner on each, bounded tries, botocore's errors in our words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any, Final

from lmi_deploy.adapters.aws.credentials import credential_trouble
from lmi_deploy.adapters.s3.clients import S3Clients
from lmi_deploy.adapters.s3.faults import Fault, read_fault
from lmi_deploy.adapters.s3.refusals import OWNERLESS, Subject, explain
from lmi_deploy.adapters.s3.skew import FORGIVEN
from lmi_deploy.errors import LmiError
from lmi_deploy.ports.clock import Clock

_LONGEST_WAIT: Final = 20.0
_DAMAGED_TRIES: Final = 2


Tell = Callable[[str], None]
"""Takes what the user should hear while a call goes on: another try, a wrong clock."""


def silent(note: str) -> None:
    """Nobody listens."""


class Calls:
    """Calls to one bucket, from any number of threads."""

    def __init__(
        self, clients: S3Clients, bucket: str, owner: str, *, clock: Clock, tell: Tell = silent
    ) -> None:
        self.clients = clients
        self.bucket = bucket
        self.owner = owner
        self.clock = clock
        self.tell = tell
        self._random = Random()

    def __call__(self, call: str, *, key: str = "", **parameters: Any) -> dict[str, Any]:
        """The answer of `call`, a method of boto3's client, or the LmiError that ends it."""
        from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError

        given = {"Bucket": self.bucket, **parameters}
        if call not in OWNERLESS:
            given["ExpectedBucketOwner"] = self.owner
        if key:
            given["Key"] = key
        tries = _Tries(self, self._subject(call, key))
        while True:
            api = tries.next(given)
            try:
                answer: dict[str, Any] = getattr(api, call)(**given)
            except ParamValidationError:
                raise
            except (ClientError, BotoCoreError) as exc:
                tries.failed(exc, api)
            else:
                self.clients.reached = True
                return answer

    def denied(self, call: str, key: str, told: Mapping[str, str]) -> LmiError:
        """For a refusal of one of many keys, which comes inside of a good answer."""
        fault = Fault(kind="final", code="AccessDenied", status=403, message=told.get("Message", ""))
        return explain(fault, self._subject(call, key))

    def pause(self, count: int) -> None:
        """Before another try, longer each time."""
        longest = min(_LONGEST_WAIT, 0.5 * 2**count)
        self.clock.sleep(self._random.uniform(longest / 2, longest))

    def _subject(self, call: str, key: str) -> Subject:
        clients = self.clients
        return Subject(
            call=call,
            bucket=self.bucket,
            key=key,
            owner=self.owner,
            region=clients.region,
            partition=clients.partition,
            endpoint=clients.endpoint,
        )

    def learn_skew(self, fault: Fault, least: timedelta = timedelta(0)) -> bool:
        """Whether the answer told the service's time, by which requests are signed from now on."""
        skew = self.clients.skew
        if not skew.learn(fault.headers.get("date", ""), self.clock.now(), least):
            return False
        minutes = skew.offset.total_seconds() / 60
        way = "behind" if minutes > 0 else "ahead"
        self.tell(
            f"this machine's clock is {abs(minutes):.0f} minutes {way} of S3's: requests are signed by S3's clock"
        )
        return True

    def renew(self, stale: Any) -> bool:
        self.tell("the AWS credentials have expired: reading them again")
        self.clients.renew(stale)
        return True


class _Tries:
    """The tries of one call: how many of which kind there were, and whether there is another."""

    def __init__(self, calls: Calls, subject: Subject) -> None:
        self._calls = calls
        self._subject = subject
        self._counts: dict[str, int] = {}

    def next(self, given: dict[str, Any]) -> Any:
        body = given.get("Body")
        if self._counts and hasattr(body, "seek"):
            body.seek(0)  # type: ignore[union-attr]
        return self._calls.clients.api

    def failed(self, exc: Exception, api: Any) -> None:
        """Wait as long as is due, or raise what ends the call."""
        trouble = credential_trouble(exc)
        if trouble is not None:
            raise trouble from exc
        fault = read_fault(exc)
        self._calls.clients.reached |= fault.status != 0
        count = self._counts[fault.kind] = self._counts.get(fault.kind, 0) + 1
        if not self._another(fault, count, api):
            raise explain(self._counted(fault), self._subject) from exc
        if fault.kind in ("again", "contested"):
            self._calls.tell(f"{self._subject.what}: trying again: {fault.code}")
            self._calls.pause(count)

    def _another(self, fault: Fault, count: int, api: Any) -> bool:
        match fault.kind:
            case "again" | "contested":
                nobody = fault.is_unreachable and not self._calls.clients.reached
                return count < self._calls.clients.settings.rounds and not nobody
            case "damaged":
                return count <= _DAMAGED_TRIES
            case "skewed":
                return count == 1 and self._calls.learn_skew(fault)
            case "mute":
                return count == 1 and self._calls.learn_skew(fault, least=FORGIVEN)
            case "expired":
                elsewhere = fault.region not in ("", self._subject.region)
                return count == 1 and not elsewhere and self._calls.renew(api)
            case "final":
                return False

    def _counted(self, fault: Fault) -> Fault:
        return replace(fault, resent=fault.resent or sum(self._counts.values()) > 1)
