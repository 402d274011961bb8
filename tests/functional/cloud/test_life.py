"""A deployment on SageMaker from its first `up` to nothing left."""

from __future__ import annotations

from tests.support.cloud_house import CloudHouse


def test_from_nothing_to_an_answer_and_back(house: CloudHouse) -> None:
    ran = house.lmi("up", "--yes", "--json")
    assert ran.code == 0, ran.out
    steps = [line["key"].partition(":")[0] for line in ran.lines if line["event"] == "finished"]
    assert steps == [
        *("MakeBucket", "PushWeights", "PutArtifact", "CreateModel", "CreateEndpointConfig"),
        *("CreateEndpoint", "AwaitService", "ProbeEndpoint"),
    ]
    assert ran.result["address"].startswith("https://runtime.sagemaker.")
    assert house.lmi("status", "tiny").code == 0
    assert house.lmi("invoke", "tiny", "hello").out == "OK\n"
    down = house.lmi("down", "tiny", "--yes")
    assert down.code == 0, down.err
    assert house.kept_in_cloud() == []
    assert house.lmi("ls").out == ""
    assert house.depot().weights.all()
