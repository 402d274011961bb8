"""What every AWS service of ours shares: the session, and who we are."""

from __future__ import annotations
