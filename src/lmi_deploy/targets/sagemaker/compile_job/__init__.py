"""The job that compiles a model ahead of time: a processing job, or an optimization job."""
