"""The port ResourceTags: all resources with our tag are found, on all pages, and no others."""

from __future__ import annotations

from lmi_deploy.domain.sagemaker.resource_settings import TAG
from lmi_deploy.ports.cloud import Cloud
from lmi_deploy.ports.resource_tags import ResourceTags
from tests.support.emulator_process import Emulated
from tests.support.sagemaker_fixtures import TAGS, config_settings, model_settings


def test_tagged_resources_of_one_deployment_and_of_all(aws: Emulated, cloud: Cloud, serving: str) -> None:
    resource_tags: ResourceTags = cloud.tagged
    cloud.hosting.create_model("other-1", model_settings(aws), ((TAG, "other"),))
    cloud.hosting.create_model("foreign", model_settings(aws), (("team", "red"),))
    found = resource_tags.of("chat")
    assert {(item.kind, item.name) for item in found} == {
        ("endpoint", serving),
        ("endpoint-config", serving),
        ("model", serving),
    }
    assert found[0].tags == TAGS
    assert found[0].tag(TAG) == "chat"
    assert found[0].arn.startswith("arn:aws:sagemaker:")
    assert {item.name for item in resource_tags.all()} == {serving, "other-1"}
    assert resource_tags.of("nobody") == ()


def test_all_pages_of_the_tag_search_are_read(aws: Emulated, cloud: Cloud) -> None:
    cloud.hosting.create_model("pages", model_settings(aws), TAGS)
    for number in range(120):
        cloud.hosting.create_endpoint_config(
            f"pages-{number}", config_settings("pages"), ((TAG, "pages"), ("n", str(number)))
        )
    assert len(cloud.tagged.of("pages")) == 120
