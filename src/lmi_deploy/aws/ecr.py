"""The port ImageRegistry: Amazon ECR."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from lmi_deploy.aws.client import AwsConnection, Service
from lmi_deploy.domain.observed_state import Repository
from lmi_deploy.domain.recipe_keys import Pairs
from lmi_deploy.domain.sagemaker.resource_fields import tag_pairs
from lmi_deploy.domain.secret import Secret
from lmi_deploy.errors import CloudError, Conflict, NotFound
from lmi_deploy.ports.image_registry import RegistryLogin


class EcrRegistry:
    """`account` owns the registry, so that another account's repository of the same name is never used."""

    def __init__(self, access: AwsConnection, *, account: str) -> None:
        self._api = Service(access, "ecr")
        self._account = account

    def repository(self, name: str) -> Repository | None:
        try:
            images = dict(self._images(name))
            response = self._api(
                "list_tags_for_resource",
                f"tags of repository {name}",
                resource=self._arn(name),
                resourceArn=self._arn(name),
            )
        except NotFound:
            return None
        return Repository(tags=dict(tag_pairs(response.get("tags", ()))), images=images)

    def _images(self, name: str) -> Iterator[tuple[str, str]]:
        found = self._api.pages(
            "describe_images",
            f"images of repository {name}",
            token="nextToken",
            items="imageDetails",
            resource=self._arn(name),
            registryId=self._account,
            repositoryName=name,
            filter={"tagStatus": "TAGGED"},
        )
        for image in found:
            yield from ((tag, str(image.get("imageManifestMediaType", ""))) for tag in image["imageTags"])

    def create(self, name: str, tags: Pairs) -> None:
        with suppress(Conflict):
            self._api(
                "create_repository",
                f"repository {name}",
                resource=self._arn(name),
                registryId=self._account,
                repositoryName=name,
                tags=[{"Key": key, "Value": value} for key, value in tags],
                imageTagMutability="IMMUTABLE",
            )

    def login(self) -> RegistryLogin:
        response = self._api("get_authorization_token", "login to ECR", needs="authorizationData")
        data: dict[str, Any] = response["authorizationData"][0]
        user, _, password = base64.b64decode(data["authorizationToken"]).decode().partition(":")
        return RegistryLogin(address=data["proxyEndpoint"], user=user, password=Secret(password))

    def delete_image(self, repository: str, tag: str) -> None:
        with suppress(NotFound):
            response = self._api(
                "batch_delete_image",
                f"image {repository}:{tag}",
                resource=self._arn(repository),
                registryId=self._account,
                repositoryName=repository,
                imageIds=[{"imageTag": tag}],
            )
            failures = [
                f"{one.get('failureCode')}: {one.get('failureReason')}"
                for one in response.get("failures", ())
                if one.get("failureCode") != "ImageNotFound"
            ]
            if failures:
                raise CloudError(
                    f"ECR did not delete image {repository}:{tag}: {'; '.join(failures)}",
                    hint="run the same command again",
                )

    def delete_repository(self, name: str) -> None:
        with suppress(NotFound):
            self._api(
                "delete_repository",
                f"repository {name}",
                resource=self._arn(name),
                registryId=self._account,
                repositoryName=name,
                force=True,
            )

    def _arn(self, name: str) -> str:
        return f"arn:{self._api.partition}:ecr:{self._api.region}:{self._account}:repository/{name}"
