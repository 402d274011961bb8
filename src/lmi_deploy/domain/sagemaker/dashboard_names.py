"""How the CloudWatch dashboard of a deployment is found again."""

from __future__ import annotations


def dashboard_name(endpoint: str, region: str) -> str:
    """With the region: an account has one list of dashboards for all of them."""
    return f"lmi-{endpoint}-{region}"


def dashboard_marker(endpoint: str) -> str:
    """In its text: without it the dashboard is not ours."""
    return f"Made by `lmi dashboard {endpoint}`"
