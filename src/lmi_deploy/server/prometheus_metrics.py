"""The response of GET /server/metrics with SERVING_PROMETHEUS=true: names, labels and units are the real server's."""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from lmi_deploy.domain.djl_serving import SERVER_VERSION

_BOUNDS = ("0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf")


@dataclass(slots=True)
class _Series:
    """Values of one metric, by its label's value."""

    kind: str
    label: str
    values: dict[str, list[float]] = field(default_factory=dict)


class PrometheusMetrics:
    """Counts only when the metrics route is enabled."""

    def __init__(self, *, kept: bool) -> None:
        self.is_enabled = kept
        self._host = socket.gethostname()
        self._series: dict[str, _Series] = {}
        self._add("DJLServingStart", "counter", ("Version", SERVER_VERSION), 1)

    def started(self, seconds: float) -> None:
        """The server listens, that long after its start."""
        self._add("StartupLatency", "gauge", ("Host", self._host), seconds * 1e6)

    def loaded(self, model: str, *, read: float, loading: float) -> None:
        """Seconds to read a model's settings, and to start its workers."""
        for name, seconds in (
            ("DownloadModel", read),
            ("LoadModel", loading),
            ("RegisterWorkflow", read + loading),
        ):
            self._add(name, "gauge", ("Model", model), seconds * 1e6)

    def served(self, model: str, *, queued: float, total: float) -> None:
        """A request answered by a worker: seconds that it waited for one, and its total seconds."""
        self._add("QueueTime", "histogram", ("Model", model), queued * 1e6)
        self._add("RequestLatency", "histogram", ("Model", model), total * 1e6)

    def answered(self, status: int) -> None:
        """A response to an inference request, by the class of its status as the real server groups them."""
        kind = "5XX" if status >= 500 else "4XX" if status >= 400 else "2XX"
        self._add(f"Response_{kind}", "counter", ("Host", self._host), 1)

    def refused(self, kind: str, status: int) -> None:
        """No worker responded."""
        self.answered(status)
        if status >= 500:
            name = "WlmError" if kind.startswith("Wlm") else "ServerError"
            self._add(name, "counter", ("Host", self._host), 1)

    def text(self, names: Collection[str]) -> str:
        """Prometheus's exposition format; all metrics if no name is given."""
        lines = (
            line
            for name, series in sorted(self._series.items())
            if not names or name in names
            for line in _lines(name, series)
        )
        return "".join(f"{line}\n" for line in lines)

    def _add(self, name: str, kind: str, label: tuple[str, str], value: float) -> None:
        if not self.is_enabled:
            return
        series = self._series.setdefault(name, _Series(kind, label[0]))
        values = series.values.setdefault(label[1], [])
        match kind:
            case "counter":
                values[:] = [sum(values) + value]
            case "gauge":
                values[:] = [value]
            case _:  # no bound but the last is over a microsecond's fraction: number and sum say it all
                count, total = values or (0.0, 0.0)
                values[:] = [count + 1, total + value]


def _lines(name: str, series: _Series) -> Iterator[str]:
    shown = f"{name}_total" if series.kind == "counter" else name
    unit = "Count" if series.kind == "counter" else "Microseconds"
    yield f"# HELP {shown} : prometheus {series.kind} metric, unit: {unit}"
    yield f"# TYPE {shown} {series.kind}"
    for value, numbers in sorted(series.values.items()):
        label = f'{series.label}="{value}"'
        if series.kind != "histogram":
            yield f"{shown}{{{label}}} {float(round(numbers[0]))}"
            continue
        count, total = round(numbers[0]), float(round(numbers[1]))
        for bound in _BOUNDS:
            yield f'{name}_bucket{{{label},le="{bound}"}} {count if bound == "+Inf" else 0}'
        yield f"{name}_count{{{label}}} {count}"
        yield f"{name}_sum{{{label}}} {total}"
