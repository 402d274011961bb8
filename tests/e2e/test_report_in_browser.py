"""The HTML page of `lmi bench` in Chromium: nothing is cut off, nothing overlaps, in wide and narrow windows, light and
dark.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from lmi_deploy.bench.html_report import to_html
from lmi_deploy.bench.objectives import parse_objective
from lmi_deploy.bench.report import LoadPoint, Provenance, Report
from lmi_deploy.bench.report_points import point_of
from lmi_deploy.bench.report_tables import report_tables
from tests.support.bench_runs import BEGAN, T4, closed_run, open_run

pytestmark = pytest.mark.landing

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None and not os.environ.get("LMI_CI"):
    pytest.skip("Chromium is missing (Debian's package chromium)", allow_module_level=True)
OBJECTIVES = (parse_objective("p99_ms", 200.0),)
WIDTHS = (1280, 500)
"""The least width of a window of Chromium is 500."""

MEASURE = """
<script>
const cut = [], crowded = [], outside = [];
const text = node => (node.textContent || '').slice(0, 40);
for (const details of document.querySelectorAll('details')) details.open = true;
for (const svg of document.querySelectorAll('figure > svg')) {
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')].map(one => [one, one.getBoundingClientRect()]);
  for (const [one, box] of boxes)
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 ||
        box.bottom > frame.bottom + 1) cut.push(text(one));
  boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 3) crowded.push(text(one) + ' | ' + text(other));
  }));
}
for (const one of document.querySelectorAll('h1, h2, p, figure, .legend span, summary')) {
  const box = one.getBoundingClientRect();
  if (box.right > document.documentElement.clientWidth + 1) outside.push(text(one));
}
const found = {cut, crowded, outside, wide: document.documentElement.scrollWidth,
  window: document.documentElement.clientWidth, figures: document.querySelectorAll('figure').length,
  size: Math.min(...[...document.querySelectorAll('figure > svg text')].map(
    one => one.getBoundingClientRect().height).filter(Boolean))};
document.body.dataset.found = JSON.stringify(found);
</script>
"""


def report(*points: LoadPoint) -> Report:
    return Report(
        name="a <b> & c",
        created=BEGAN,
        provenance=Provenance(tool="lmi", python="3", machine="m", cpus=2, clock="monotonic"),
        points=points,
        objectives=tuple(one.words for one in OBJECTIVES),
    )


def sweep() -> Report:
    return report(
        *(
            point_of(
                closed_run(
                    lambda number: 0.05 + number % 7 / 100,
                    concurrency=many,
                    requests=400,
                    tokens=5,
                    billed=T4,
                    factors={"variant": variant, "concurrency": many},
                ),
                objectives=OBJECTIVES,
            )
            for variant in ("a variant with a long name", "another")
            for many in (1, 8, 64)
        )
    )


def factorial() -> Report:
    return report(
        *(
            point_of(
                closed_run(
                    asked * given / 40_000,
                    requests=40,
                    factors={"input_tokens": asked, "output_tokens": given},
                )
            )
            for asked in (50, 200, 500, 1000)
            for given in (50, 100, 150, 200)
        )
    )


def open_loops() -> Report:
    return report(*(point_of(open_run(rate, requests=3000), objectives=OBJECTIVES) for rate in (2, 20, 2000)))


REPORTS = {"sweep": sweep, "factorial": factorial, "open loops": open_loops}


def chromium(page: Path, width: int, *more: str) -> str:
    profile = page.with_name(f"profile-{width}")
    command = [
        *(str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"),
        *(f"--window-size={width},1400", "--virtual-time-budget=1000", *more, page.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=180)
    return done.stdout


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", [*REPORTS])
def test_page_fits_its_window_and_no_text_is_cut(name: str, width: int, tmp_path: Path) -> None:
    made = REPORTS[name]()
    page = tmp_path / "page.html"
    page.write_text(to_html(made, report_tables(made), OBJECTIVES).replace("</body>", f"{MEASURE}</body>"))
    shown = re.search(r'data-found="([^"]*)"', chromium(page, width, "--dump-dom"))
    assert shown is not None
    found: dict[str, Any] = json.loads(unescape(shown[1]))
    assert (found["cut"], found["crowded"], found["outside"]) == ([], [], [])
    assert found["wide"] <= found["window"]
    assert found["figures"] >= 4
    assert found["size"] >= 9, "letters of a plot, in pixels of the screen"


def test_page_is_drawn_and_dark_where_the_reader_asks_for_it(tmp_path: Path) -> None:
    made = sweep()
    page = tmp_path / "page.html"
    page.write_text(to_html(made, report_tables(made), OBJECTIVES))
    light, dark = tmp_path / "light.png", tmp_path / "dark.png"
    chromium(page, 1280, f"--screenshot={light}", "--blink-settings=preferredColorScheme=1")
    chromium(page, 1280, f"--screenshot={dark}", "--blink-settings=preferredColorScheme=0")
    with Image.open(light) as image:
        assert image.convert("RGB").getpixel((3, 3)) == (255, 255, 255)
        colours = image.convert("RGB").getcolors(1 << 24) or []
    assert {(0, 114, 178), (213, 94, 0)} <= {colour for _, colour in colours}, "the lines of two variants"
    with Image.open(dark) as image:
        assert image.convert("RGB").getpixel((3, 3)) == (13, 17, 23)
