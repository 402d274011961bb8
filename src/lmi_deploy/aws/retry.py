"""The attempts of one call: limited, by the kind of error, the same for every service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random
from typing import Any, Final

from lmi_deploy.aws.client_factory import Clients
from lmi_deploy.aws.clock_skew import FORGIVEN
from lmi_deploy.aws.credentials import credential_error, expired_credentials, is_still_expired
from lmi_deploy.aws.error_classification import AwsError, is_unreadable, read_error
from lmi_deploy.aws.response_fields import UnexpectedResponse, defect_of
from lmi_deploy.errors import LmiError
from lmi_deploy.host.retry_policy import RetryPolicy
from lmi_deploy.ports.clock import Clock
from lmi_deploy.ports.message_callback import Notify, ignore

POLICY: Final = RetryPolicy(attempts=5, longest_wait=20.0)
"""The policy of every service of AWS. Each attempt contains several of botocore's own."""
PATIENT: Final = RetryPolicy(attempts=30, longest_wait=20.0)
"""Of throttling while this process holds a deployment's lock: about eight minutes. What it started may cost money, and
goes on without it if it gives up.
"""
_DAMAGED_TRIES: Final = 2
_random: Final = Random()


def always(fault: AwsError) -> bool:
    """Every request may be sent again: its effect twice is the same as once."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryingClient:
    """One service's client, and how patient the calls over it are. `service` is its name for people."""

    clients: Clients
    clock: Clock
    service: str
    policy: RetryPolicy
    notify: Notify = ignore
    repeatable: Callable[[AwsError], bool] = always
    """Whether a temporarily failed request may be sent again."""

    def run(
        self,
        call: str,
        given: dict[str, Any],
        *,
        what: str,
        explain: Callable[[AwsError], LmiError],
        needs: str = "",
    ) -> dict[str, Any]:
        """The response of `call`, a method of boto3's client, or the LmiError of its failure.

        The response contains `needs`, and all fields that lmi reads of it (`response_fields`).
        """
        from botocore.exceptions import BotoCoreError, ClientError, ParamValidationError
        from urllib3.exceptions import HTTPError

        tries = _Attempts(self, what, explain)
        while True:
            api = tries.next(given)
            try:
                response: dict[str, Any] = getattr(api, call)(**given)
                self._require_readable(api, call, response, needs)
            except ParamValidationError:
                raise
            except (ClientError, BotoCoreError, HTTPError) as exc:
                # HTTPError: the refusal of a streamed operation (GetObject) was cut off. botocore reads its body
                # outside of the code that translates urllib3's errors.
                tries.failed(exc, api)
            except Exception as exc:
                if is_still_expired(exc):
                    raise expired_credentials() from exc
                if not is_unreadable(exc):
                    raise
                tries.failed(exc, api)
            else:
                self.clients.reached = True
                return response

    @staticmethod
    def _require_readable(api: Any, call: str, response: dict[str, Any], needs: str) -> None:
        absent = f"without {needs}" if needs and needs not in response else ""
        if defect := absent or defect_of(api, api.meta.service_model.service_name, call, response):
            body = response.get("Body")
            if hasattr(body, "close"):
                body.close()  # type: ignore[union-attr]
            raise UnexpectedResponse(defect)

    def pause(self, count: int) -> None:
        """Before another attempt, longer each time."""
        self.clock.sleep(self.policy.delay(count, _random))

    def learn_skew(self, error: AwsError, least: timedelta = timedelta(0)) -> bool:
        """Whether the response contained the service's time; later requests are signed with it."""
        clock_skew = self.clients.skew
        if not clock_skew.learn(error.headers.get("date", ""), self.clock.now(), least):
            return False
        minutes = clock_skew.offset.total_seconds() / 60
        way = "behind" if minutes > 0 else "ahead"
        self.notify(
            f"this machine's clock is {abs(minutes):.0f} minutes {way} of {self.service}'s: lmi signs requests with "
            f"{self.service}'s time"
        )
        return True

    def renew(self, stale: Any) -> bool:
        self.notify("the AWS credentials have expired: refreshing them")
        self.clients.renew(stale)
        return True


class _Attempts:
    """How many attempts of which kind were made, and whether another one is allowed."""

    def __init__(self, line: RetryingClient, what: str, explain: Callable[[AwsError], LmiError]) -> None:
        self._line = line
        self._what = what
        self._explain = explain
        self._counts: dict[str, int] = {}

    def next(self, given: dict[str, Any]) -> Any:
        body = given.get("Body")
        if self._counts and hasattr(body, "seek"):
            body.seek(0)  # type: ignore[union-attr]
        return self._line.clients.api

    def failed(self, exc: Exception, api: Any) -> None:
        """Wait before the next attempt, or raise the error of the call."""
        failure = credential_error(exc)
        if failure is not None:
            raise failure from exc
        error = read_error(exc)
        self._line.clients.reached |= error.status != 0
        count = self._counts[error.kind] = self._counts.get(error.kind, 0) + 1
        if not self._another(error, count, api):
            raise self._explain(self._counted(error)) from exc
        if error.kind in ("again", "contested", "garbled"):
            why = f"a response {error.message}" if error.kind == "garbled" else error.code
            if self._line.policy.allows(count):
                self._line.notify(f"{self._what}: trying again: {why}")
            elif count == self._line.policy.attempts:
                self._line.notify(f"{self._what}: AWS goes on refusing ({why}): waiting for some minutes")
            self._line.pause(count)

    def _another(self, error: AwsError, count: int, api: Any) -> bool:
        line = self._line
        match error.kind:
            case "again" | "contested":
                unknown = error.is_unreachable and not line.clients.reached
                is_patient = error.is_throttled and line.clients.holds_lock
                policy = PATIENT if is_patient else line.policy
                return policy.allows(count) and not unknown and line.repeatable(error)
            case "garbled":
                return count <= _DAMAGED_TRIES and line.repeatable(error)
            case "damaged":
                return count <= _DAMAGED_TRIES
            case "skewed":
                return count == 1 and line.learn_skew(error)
            case "mute":
                return count == 1 and line.learn_skew(error, least=FORGIVEN)
            case "expired":
                other_location = error.region not in ("", line.clients.region)
                return count == 1 and not other_location and line.renew(api)
            case "final":
                return False

    def _counted(self, error: AwsError) -> AwsError:
        return replace(error, resent=error.resent or sum(self._counts.values()) > 1)
