"""serving.properties and environment, resolved as recorded from the real server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lmi_deploy.server.models.property_values import InvalidSettings
from lmi_deploy.server.models.serving_properties import ServerDefaults, ServingProperties, resolve
from lmi_deploy.server.server_settings import read_settings


def settings(
    folder: Path, text: str = "engine=Python\n", *, environ: dict[str, str] | None = None
) -> ServingProperties:
    (folder / "model.py").touch()
    (folder / "serving.properties").write_bytes(text.encode("latin-1"))
    defaults = read_settings(None, environ or {}).keys
    return resolve(folder, name="m", around=ServerDefaults(defaults=defaults, environ=environ or {}))


def test_options_reach_the_handler_without_prefix_and_defaults_do_not(tmp_path: Path) -> None:
    found = settings(
        tmp_path, "engine=Python\noption.MixedCase=Yes\nplain=pv\noption.env=FOO=bar, B = q x \n"
    )
    assert dict(found.initialise) == {
        "engine": "Python",
        "MixedCase": "Yes",
        "plain": "pv",
        "handler": "handle",
    }
    assert dict(found.extra_environment) == {"FOO": "bar", "B": "q x"}


def test_missing_properties_file_uses_defaults(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    found = resolve(tmp_path, name="m", around=ServerDefaults(defaults={}, environ={}))
    assert dict(found.initialise) == {"handler": "handle"}


def test_batch_size_sets_batchifier_stack(tmp_path: Path) -> None:
    assert settings(tmp_path, "batch_size=2\n").initialise["batchifier"] == "stack"


def test_file_overrides_environment_options_and_sagemaker_overrides_the_file(tmp_path: Path) -> None:
    environ = {
        "OPTION_A": "env",
        "OPTION_B_C": "env",
        "OPTION_MixedCase": "env",
        "OPTION_ENTRYPOINT": "model.py",
        "ARGS_BAR": "arg",
        "SERVING_MAX_WORKERS": "7",
        "SAGEMAKER_MODEL_SERVER_TIMEOUT_SECONDS": "44",
    }
    found = settings(tmp_path, "engine=Python\noption.a=file\noption.predict_timeout=9\n", environ=environ)
    assert dict(found.initialise) == {
        "engine": "Python",
        "a": "file",
        "b_c": "env",
        "MixedCase": "env",
        "entryPoint": "model.py",
        "bar": "arg",
        "maxWorkers": "7",
        "predict_timeout": "44",
        "handler": "handle",
    }
    assert (found.limits.predict_timeout, found.places[0].high) == (44, 7)


def test_server_keys_apply_where_the_model_has_none(tmp_path: Path) -> None:
    environ = {"SERVING_JOB_QUEUE_SIZE": "77", "SERVING_BATCH_SIZE": "4"}
    found = settings(tmp_path, "engine=Python\nbatch_size=2\n", environ=environ)
    assert (found.limits.job_queue_size, found.limits.batch_size) == (77, 2)
    assert "job_queue_size" not in found.initialise


@pytest.mark.parametrize(
    ("text", "environ", "bounds"),
    [
        ("", {}, (1, 2)),
        ("minWorkers=3\nmaxWorkers=1\n", {}, (1, 1)),
        ("minWorkers=3\n", {}, (2, 2)),
        ("", {"OMP_NUM_THREADS": "1"}, (1, os.cpu_count())),
        ("", {"SAGEMAKER_NUM_MODEL_WORKERS": "3"}, (3, 3)),
    ],
)
def test_worker_counts_follow_the_settings(
    tmp_path: Path, text: str, environ: dict[str, str], bounds: tuple[int, int]
) -> None:
    [place] = settings(tmp_path, text, environ=environ).places
    assert (place.low, place.high) == bounds


def test_entry_point_follows_the_settings(tmp_path: Path) -> None:
    assert settings(tmp_path).entry_point == "model.py"
    assert settings(tmp_path).recommended_entry_point == ""
    by_id = settings(tmp_path, "option.model_id=/m\n")
    assert (by_id.entry_point, by_id.recommended_entry_point) == ("model.py", "djl_python.huggingface")
    (tmp_path / "alt.py").touch()
    assert settings(tmp_path, environ={"DJL_ENTRY_POINT": "alt.py"}).entry_point == "alt.py"


def test_handler_file_can_have_the_name_of_the_model(tmp_path: Path) -> None:
    (tmp_path / "serving.properties").write_text("option.pythonExecutable=/own/python\n")
    (tmp_path / "m.py").touch()
    found = resolve(tmp_path, name="m", around=ServerDefaults(defaults={}, environ={}))
    assert (found.entry_point, found.python) == ("m.py", "/own/python")


def test_invalid_time_limits_are_ignored(tmp_path: Path) -> None:
    text = "option.predict_timeout=soon\noption.model_loading_timeout=7\n"
    limits = settings(tmp_path, text, environ={"PREDICT_TIMEOUT": "x"}).limits
    assert (limits.predict_timeout, limits.model_loading_timeout) == (120, 7)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("engine=DeepSpeed\n", "Deep learning engine not found: DeepSpeed"),
        ("engine=MPI\n", "mpirun"),
        ("batch_size=abc\n", 'batch_size=abc: For input string: "abc"'),
        ("option.entryPoint=missing.py\n", "missing.py does not exist"),
    ],
)
def test_unsupported_settings_are_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(InvalidSettings, match=why):
        settings(tmp_path, text)


def test_folder_without_a_handler_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"\.py file not found"):
        resolve(tmp_path, name="m", around=ServerDefaults(defaults={}, environ={}))


@pytest.mark.parametrize(
    ("text", "features", "asynchronous"),
    [
        ("engine=Python\n", "vllm", True),
        ("engine=Python\noption.rolling_batch=auto\n", "vllm", True),
        ("engine=Python\n", "", False),
        ("engine=Python\noption.rolling_batch=auto\n", "", False),
        ("engine=Python\noption.rolling_batch=disable\n", "vllm", False),
        ("engine=Python\nbatch_size=2\n", "vllm", False),
    ],
)
def test_vllm_image_serves_text_generation_in_async_mode(
    tmp_path: Path, text: str, features: str, asynchronous: bool
) -> None:
    (tmp_path / "config.json").write_text('{"architectures": ["LlamaForCausalLM"]}')
    found = settings(tmp_path, text, environ={"SERVING_FEATURES": features})
    assert (found.async_mode, found.initialise["rolling_batch"]) == (asynchronous, "disable")
    assert found.recommended_entry_point.endswith("vllm_async_service" if asynchronous else "huggingface")


@pytest.mark.parametrize(
    "line", ["batch_size=2 ", "job_queue_size=7 ", "max_batch_delay=50 ", "minWorkers=1 "]
)
def test_trailing_space_after_a_number_is_refused_as_by_djl(tmp_path: Path, line: str) -> None:
    key, _, value = line.partition("=")
    with pytest.raises(
        InvalidSettings, match=f'{key}={value}: For input string: "{value}"; remove the space'
    ):
        settings(tmp_path, line + "\n")


def test_trailing_space_is_accepted_where_djl_accepts_it(tmp_path: Path) -> None:
    limits = settings(tmp_path, "option.predict_timeout=30 \nretry_threshold=2 \n").limits
    assert limits.retry_threshold == 2


@pytest.mark.parametrize("text", ["1_000", "2147483648", "١", "0x10", ""])
def test_number_java_cannot_parse_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidSettings, match="For input string"):
        settings(tmp_path, f"max_idle_time={text.encode('unicode_escape').decode()}\n")


def test_queue_size_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="job_queue_size=0: the queue must hold at least 1 request"):
        settings(tmp_path, "job_queue_size=0\n")


def test_worker_counts_of_config_properties_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "model.py").touch()
    defaults = {"minWorkers": "3", "maxWorkers": "5"}
    places = resolve(tmp_path, name="m", around=ServerDefaults(defaults=defaults, environ={})).places
    assert [(place.low, place.high) for place in places] == [(1, 2)]


def test_device_named_twice_is_one_worker_group(tmp_path: Path) -> None:
    assert len(settings(tmp_path, "load_on_devices=cpu;cpu\n").places) == 1
