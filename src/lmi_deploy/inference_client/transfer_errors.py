"""How an exchange with a server can fail."""

from __future__ import annotations


class TransferError(Exception):
    """The exchange did not end as it should. The text says why."""


class ConnectFailed(TransferError):
    """Nothing was sent: no connection could be opened."""


class TimedOut(TransferError):
    """No data arrived within the time given."""


class ConnectionCut(TransferError):
    """The connection ended before the response did. `unanswered`: no byte of it had arrived."""

    def __init__(self, why: str, *, unanswered: bool) -> None:
        super().__init__(why)
        self.unanswered = unanswered
