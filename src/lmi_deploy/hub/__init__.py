"""A Hugging Face Hub over a folder of models, read-only: `python -m lmi_deploy.hub`, started by `lmi hub serve`."""
