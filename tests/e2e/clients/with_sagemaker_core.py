"""The lifecycle of an endpoint with sagemaker-core: takes role, S3 URI and image, prints the results as
JSON."""

import json
import sys

from sagemaker.core.resources import Endpoint, EndpointConfig, Model
from sagemaker.core.shapes import ContainerDefinition, ModelDataSource, ProductionVariant, S3ModelDataSource

role, uri, image = sys.argv[1:]
NAME = "by-core"


def config(called):
    variant = ProductionVariant(
        variant_name="AllTraffic", model_name=NAME, instance_type="ml.g5.xlarge", initial_instance_count=1
    )
    return EndpointConfig.create(endpoint_config_name=called, production_variants=[variant])


def invoke():
    body = json.dumps({"do": "echo", "text": "hello"})
    return endpoint.invoke(body=body, content_type="application/json").body.read().decode()


source = S3ModelDataSource(s3_uri=uri, s3_data_type="S3Prefix", compression_type="None")
container = ContainerDefinition(image=image, model_data_source=ModelDataSource(s3_data_source=source))
model = Model.create(model_name=NAME, execution_role_arn=role, primary_container=container)
first, second = config("by-core-1"), config("by-core-2")
endpoint = Endpoint.create(endpoint_name=NAME, endpoint_config_name="by-core-1")
endpoint.wait_for_status("InService", poll=1)
told = {"answer": invoke()}
endpoint.endpoint_config_name = "by-core-2"
endpoint.update()
endpoint.wait_for_status("InService", poll=1)
told["config"] = Endpoint.get(NAME).endpoint_config_name
told["answer_after"] = invoke()
endpoint.delete()
endpoint.wait_for_delete(poll=1)
for made in (first, second, model):
    made.delete()
told["left"] = [left.endpoint_name for left in Endpoint.get_all(name_contains=NAME)]
# sagemaker-core logs to stdout, too.
print(f"\n{json.dumps(told)}")
