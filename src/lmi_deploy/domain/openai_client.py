"""How OpenAI's client library reaches `lmi proxy`."""

from __future__ import annotations

from typing import Final

PROXY_KEY_VARIABLE: Final = "LMI_PROXY_API_KEY"
"""Has the proxy's key: if it is not set, the proxy makes one and prints it."""


def client_lines(address: str) -> str:
    """Python that makes `client`. The key is not in it: these lines are copied into programs."""
    return f"""\
  import os
  from openai import OpenAI
  client = OpenAI(base_url="{address}/v1", api_key=os.environ["{PROXY_KEY_VARIABLE}"])
"""
