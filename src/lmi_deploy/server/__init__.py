"""The embedded model server: an HTTP front end before DJL's Python engine, `python -m lmi_deploy.server`."""
