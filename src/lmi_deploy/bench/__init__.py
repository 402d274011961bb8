"""Load, measure, judge, report: `lmi bench`."""
