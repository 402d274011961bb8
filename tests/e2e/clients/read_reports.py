"""`read_reports.py SARIF JUNIT`: prints what sarif-pydantic's models and junitparser read in the reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from junitparser import JUnitXml
from sarif_pydantic import Sarif

sarif = Sarif.model_validate_json(Path(sys.argv[1]).read_text("utf-8"))
places = []
for result in sarif.runs[0].results:
    place = result.locations[0].physical_location
    places.append([place.artifact_location.uri, place.region.start_line])
junit = JUnitXml.fromfile(sys.argv[2])
cases = [[case.name, [type(found).__name__ for found in case.result]] for suite in junit for case in suite]
print(json.dumps({"driver": sarif.runs[0].tool.driver.name, "places": places, "cases": cases}))
