"""Render a Spec to the bytes that are deployed. Templates only place values; the values come from the Spec alone."""

from __future__ import annotations

from lmi_deploy.catalog.package_files import templates
from lmi_deploy.domain.deployment_artifact import SLOT, Artifact, ArtifactFile
from lmi_deploy.domain.deployment_spec import Spec
from lmi_deploy.domain.djl_serving import MODEL_PY, REQUIREMENTS_TXT, SERVING_PROPERTIES
from lmi_deploy.domain.java_properties import write_line


def render(spec: Spec) -> Artifact:
    """serving.properties, model.py and requirements.txt, as far as the spec has them, sorted by path."""
    files = [ArtifactFile(SERVING_PROPERTIES, _properties(spec))]
    template = spec.engine.handler.template
    code = (templates() / template / MODEL_PY).read_bytes() if template else spec.inputs.model_py
    if code:
        files.append(ArtifactFile(MODEL_PY, code))
    if spec.inputs.requirements:
        files.append(ArtifactFile(REQUIREMENTS_TXT, spec.inputs.requirements))
    return Artifact(tuple(sorted(files, key=lambda file: file.path)))


def _properties(spec: Spec) -> bytes:
    import jinja2

    # The slot is written unescaped: the target replaces it by an escaped location.
    lines = [
        f"{key}={value}" if value == SLOT else write_line(key, escape_free(value))
        for key, value in spec.engine.properties
    ]
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,
    )
    text = environment.get_template("serving.properties.jinja").render(spec=spec, lines=lines)
    return text.encode("latin-1")


def escape_free(value: str) -> str:
    """The value, which must not contain the slot's own mark: only lmi may set the location of the weights."""
    if SLOT in value:
        raise ValueError(f"a value contains {SLOT}")
    return value
