"""The port Topics. Source: SNS's API reference, GetTopicAttributes (SubscriptionsConfirmed)."""

from __future__ import annotations

from lmi_deploy.aws.client import AwsConnection, Service


class SnsTopics:
    def __init__(self, access: AwsConnection) -> None:
        self._api = Service(access, "sns")

    def subscriptions(self, topic: str) -> int:
        response = self._api("get_topic_attributes", f"SNS topic {topic}", resource=topic, TopicArn=topic)
        return int(response.get("Attributes", {}).get("SubscriptionsConfirmed", 0))
