"""One Hypothesis profile for all property tests; each run chooses it here, or by pytest's --hypothesis-profile.

`local`: random examples, failures are kept in .hypothesis/. `ci`: the same examples in each run, nothing is kept.
Both are few: the most of what a change breaks. `fuzz`, `make fuzz`: many, for what only the thousandth finds. None
depends on the speed of the machine: no deadline, no health check of speed.
"""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support import botocore_caches
from tests.support.hypothesis_settings import FEW

# Else huggingface_hub asks huggingface.co which program it runs under, whatever endpoint a test gives it.
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
# Else a command that compares instance types without an emulator asks AWS's own price list.
os.environ.setdefault("LMI_PRICE_REFRESH", "off")
# Words are compared as they are; the tests of colours remove it.
os.environ["NO_COLOR"] = "1"

# Every command makes boto3 sessions of its own, each of which reads AWS's models again and derives the same of them.
botocore_caches.install()

_LONGEST = (
    *("e2e/test_quickstart.py", "functional/test_bench_run.py", "sagemaker/test_crash_matrix.py"),
    *("server/test_recordings.py", "sagemaker/test_signals.py", "functional/test_bench_experiment.py"),
    *("contract/test_model_server.py", "sagemaker/test_parallel_up.py", "emulator/test_program.py"),
    *("e2e/test_sagemaker.py", "handlers/test_text_generation.py", "functional/test_bench_requests.py"),
    *("functional/test_published_experiments.py", "proxy/test_local.py", "handlers/test_failing_handlers.py"),
)
"""Those of more than 40 s, as measured on 2026-11-29; the order matters little, that they are first does."""

# The first draw of text builds Hypothesis' character tables: seconds on a fresh clone or a busy machine.
_ANY_SPEED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

# Modules and tests live until the end: without these two, each collection of garbage looks through all of them.
gc.disable()


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files that take longest come first, so that nothing waits for them at the end.

    versitygw is built with Go, for a minute and a half: `make test` needs Python and make alone.
    """
    first = {name: place for place, name in enumerate(_LONGEST)}
    items.sort(key=lambda item: first.get(f"{item.path.parent.name}/{item.path.name}", len(first)))
    for item in items:
        values = getattr(getattr(item, "callspec", None), "params", {}).values()
        names = (*getattr(item, "fixturenames", ()), *(one for one in values if isinstance(one, str)))
        if "versity" in names:
            item.add_marker(pytest.mark.landing)


settings.register_profile("local", _ANY_SPEED, max_examples=FEW)
settings.register_profile("ci", _ANY_SPEED, max_examples=FEW, derandomize=True, database=None)
settings.register_profile("fuzz", _ANY_SPEED, max_examples=2000)
settings.load_profile("ci" if os.environ.get("LMI_CI") or os.environ.get("CI") else "local")
