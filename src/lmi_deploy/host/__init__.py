"""This machine: clock, disk, processes, locks."""
