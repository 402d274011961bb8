"""The Python API: what `import lmi_deploy` exports, and what commands share with it."""
