"""The service behind a processing job: its hosts, their inputs and outputs, a process on each."""
