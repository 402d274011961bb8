"""OpenAI's API in front of deployments, wherever they run: a program (`python -m lmi_deploy.proxy`)."""
