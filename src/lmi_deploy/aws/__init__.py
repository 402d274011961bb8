"""What the AWS adapters share: the session, and the caller's identity."""

from __future__ import annotations
