"""Stories of a team in one account: a person, the console or time does something to a deployment, and another person's
command meets it. Each has an own state folder and identity with the deployer's policy alone; IAM is enforced; the
emulator's clock turns by days.

After the command: nothing that runs has lost a right, `lmi cost` has the emulator's instance hours, and what the
command said is true.
"""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from tests.support.emulator_process import ACCOUNT, REGION, Emulated
from tests.support.least_privilege import HANDLER, write_model
from tests.support.program_forks import forked_lmi

DAY = 86_400.0
SPEED = "300"
"""Of the emulator's clock: a command that takes a second takes five minutes there."""
TIMEOUT = 240.0
RECIPE = """\
name: {name}
model_id: ./{model}
engine: accelerate
instance_type: ml.g5.xlarge
handler: {{file: model.py}}
probe: {{body: '{{}}'}}
options: {{max_model_len: {length}}}
endpoint: {{role: role-{name}}}
{more}
"""
_BUG = 3
_TOLERANCE = (0.03, 2.0)
"""Of the hours: a share, and hours, for what runs while a command does."""


@dataclass(frozen=True)
class Ran:
    words: str
    code: int
    lines: list[dict[str, Any]]
    output: str

    @property
    def result(self) -> dict[str, Any]:
        return self.lines[-1] if self.lines else {}


@dataclass
class Story:
    """One deployment, deployed twice by Ben. `state` is what happens to it then, `command` what Ada runs."""

    aws: Emulated
    folder: Path
    number: int
    state: str
    command: str
    wrong: list[str] = field(default_factory=list)
    hours: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """That ran, by instance type."""
    _seen: tuple[float, str, int] | None = None

    def __post_init__(self) -> None:
        self.name = f"chat-{self.number}"
        self.random = random.Random(self.number)
        self.keys: dict[str, dict[str, str]] = {"root": self.aws.keys}
        for person in ("root", "ada", "ben"):
            home = self.folder / person
            home.mkdir(parents=True)
            for model in ("m", "other"):
                write_model(home / model)
            (home / "model.py").write_text(HANDLER)

    def recipe(self, person: str, *, length: int, model: str = "m") -> str:
        more = "ttl: 8h\n" if self.state == "expired" else ""
        text = RECIPE.format(name=self.name, model=model, length=length, more=more)
        (self.folder / person / "r.yaml").write_text(text)
        return "r.yaml"

    # What happens

    def lmi(self, person: str, *argv: str, region: str = REGION) -> Ran:
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("AWS_", "LMI_"))}
        home = self.folder / person
        environ = {
            **kept,
            **self.keys[person],
            "AWS_ENDPOINT_URL": self.aws.url,
            "AWS_REGION": region,
            "AWS_CONFIG_FILE": "/nowhere",
            "AWS_SHARED_CREDENTIALS_FILE": "/nowhere",
            "LMI_STATE_HOME": str(home / "state"),
            "LMI_CACHE_HOME": str(home / "cache"),
            "LMI_PRICE_REFRESH": "off",
        }
        self.look()
        done = subprocess.run(
            [forked_lmi() / "lmi", *argv, "--json"],
            cwd=home,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        self.look()
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        ran = Ran(f"{person}: lmi {' '.join(argv)}", done.returncode, lines, done.stdout)
        if ran.code == _BUG or "Traceback" in ran.output:
            self.blame("a bug of lmi", ran)
        return ran

    def must(self, person: str, *argv: str, region: str = REGION) -> Ran:
        ran = self.lmi(person, *argv, region=region)
        if ran.code:
            self.blame("a command of the set-up failed", ran)
        return ran

    def pass_days(self, days: float) -> None:
        self.look()
        self.aws.advance(days * DAY)
        self.look()

    def look(self) -> None:
        """Count the hours since the last look by what ran then."""
        now = float(self.aws.get("/_clock")["now"])
        if self._seen is not None:
            then, instance, count = self._seen
            self.hours[instance] += count * (now - then) / 3600
        self._seen = None
        if (found := self.endpoint()) and found["EndpointStatus"] not in ("Failed", "Deleting"):
            config = self.config(found["EndpointConfigName"])
            variant = config["ProductionVariants"][0] if config else {"InstanceType": "ml.g5.xlarge"}
            count = found["ProductionVariants"][0]["CurrentInstanceCount"]
            self._seen = (now, variant["InstanceType"], count)
        elif not found:
            self.hours.clear()

    def endpoint(self) -> dict[str, Any]:
        with suppress(ClientError):
            return self.aws.described(self.name)
        return {}

    def config(self, name: str) -> dict[str, Any]:
        with suppress(ClientError):
            found: dict[str, Any] = self.aws.client("sagemaker").describe_endpoint_config(
                EndpointConfigName=name
            )
            return found
        return {}

    def begin(self) -> None:
        """Ben's two versions, some days apart, with the rights of `lmi bootstrap` alone."""
        self.recipe("root", length=64)
        self.must("root", "bootstrap", "r.yaml", "--yes")
        for person in ("ada", "ben"):
            self.keys[person] = self._user(f"{person}-{self.number}")
        for length in (64, 128):
            self.must("ben", "up", self.recipe("ben", length=length), "--yes")
            self.pass_days(self.random.choice((2, 5, 9)))
        self.recipe("ada", length=128)

    def _user(self, name: str) -> dict[str, str]:
        iam = self.aws.client("iam")
        iam.create_user(UserName=name)
        found = iam.list_policies(Scope="Local")["Policies"]
        for policy in found:
            if policy["PolicyName"].startswith(f"lmi-{self.name}-"):
                iam.attach_user_policy(UserName=name, PolicyArn=policy["Arn"])
        key = iam.create_access_key(UserName=name)["AccessKey"]
        return {"AWS_ACCESS_KEY_ID": key["AccessKeyId"], "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"]}

    # What Ben, the console or time does

    def happen(self) -> None:
        STATES[self.state](self)
        self.pass_days(self.random.choice((1, 3)))

    def model_deleted(self) -> None:
        self.aws.client("sagemaker").delete_model(ModelName=self._variant()["ModelName"])

    def config_deleted(self) -> None:
        self.aws.client("sagemaker").delete_endpoint_config(
            EndpointConfigName=self.endpoint()["EndpointConfigName"]
        )

    def other_config(self) -> None:
        sagemaker, name = self.aws.client("sagemaker"), f"console-{self.number}"
        variant = {**self._variant(), "InstanceType": "ml.g5.4xlarge", "InitialInstanceCount": 2}
        sagemaker.create_endpoint_config(EndpointConfigName=name, ProductionVariants=[variant])
        sagemaker.update_endpoint(EndpointName=self.name, EndpointConfigName=name)
        self.aws.settled(self.name)

    def scaled_elsewhere(self) -> None:
        self.aws.client("application-autoscaling").register_scalable_target(
            ServiceNamespace="sagemaker",
            ResourceId=f"endpoint/{self.name}/variant/{self._variant()['VariantName']}",
            ScalableDimension="sagemaker:variant:DesiredInstanceCount",
            MinCapacity=3,
            MaxCapacity=6,
        )

    def rights_removed(self) -> None:
        iam, role = self.aws.client("iam"), f"role-{self.name}"
        for policy in iam.list_role_policies(RoleName=role)["PolicyNames"]:
            iam.delete_role_policy(RoleName=role, PolicyName=policy)

    def role_deleted(self) -> None:
        self.rights_removed()
        self.aws.client("iam").delete_role(RoleName=f"role-{self.name}")

    def rights_removed_and_record_lost(self) -> None:
        self.rights_removed()
        self.record_lost()

    def record_lost(self) -> None:
        self.aws.client("s3").delete_object(**self._record)

    def endpoint_deleted(self) -> None:
        self.aws.client("sagemaker").delete_endpoint(EndpointName=self.name)
        self.aws.wait_until_deleted(self.name)

    @property
    def _record(self) -> dict[str, str]:
        return {"Bucket": f"lmi-{ACCOUNT}-{REGION}-an", "Key": f"deployments/{self.name}/record.json"}

    def _variant(self) -> dict[str, Any]:
        found: dict[str, Any] = self.config(self.endpoint()["EndpointConfigName"])["ProductionVariants"][0]
        return found

    # What Ada does, and what must be true then

    def run(self) -> list[str]:
        self.begin()
        self.happen()
        before, able = self.endpoint(), self.able()
        ran = COMMANDS[self.command](self)
        after = self.endpoint()
        if before and after and able and not self.able():
            self.blame("the role of what runs has lost a right", ran)
        self._require_true(ran, before, after)
        # What ran before a record was lost, and while no endpoint was there, `lmi cost` says that it does not know.
        if after and self.state not in ("endpoint deleted", "record lost", "rights removed, record lost"):
            self._require_bill()
        self.lmi("root", "down", self.name, "--yes", "--purge")
        return self.wrong

    def able(self) -> bool:
        """Whether its role exists, and may read the artifact and the weights of what serves."""
        found = self.endpoint()
        config = self.config(found["EndpointConfigName"]) if found else {}
        if not config:
            return False
        try:
            model = self.aws.client("sagemaker").describe_model(
                ModelName=config["ProductionVariants"][0]["ModelName"]
            )
            place = model["PrimaryContainer"]["ModelDataSource"]["S3DataSource"]["S3Uri"]
            bucket, _, prefix = place.removeprefix("s3://").partition("/")
            properties = self.aws.client("s3").get_object(Bucket=bucket, Key=f"{prefix}serving.properties")
            weights = re.findall(r"s3://(\S+)", properties["Body"].read().decode())
            results = self.aws.client("iam").simulate_principal_policy(
                PolicySourceArn=model["ExecutionRoleArn"],
                ActionNames=["s3:GetObject"],
                ResourceArns=[f"arn:aws:s3:::{one}config.json" for one in (f"{bucket}/{prefix}", *weights)],
            )
        except ClientError:
            return False
        return all(result["EvalDecision"] == "allowed" for result in results["EvaluationResults"])

    def record(self) -> bytes:
        with suppress(ClientError):
            found: bytes = self.aws.client("s3").get_object(**self._record)["Body"].read()
            return found
        return b""

    def _require_true(self, ran: Ran, before: dict[str, Any], after: dict[str, Any]) -> None:
        status = self.lmi("ada", "status", self.name)
        standing = status.result.get("standing")
        if standing == "in-step" and not (after and after["EndpointStatus"] == "InService" and self.able()):
            self.blame("status says in-step of what does not serve, or could start no instance", status)
        if standing == "in-step" and not self.record():
            self.blame("status says in-step of what has no record", status)
        served = (before.get("EndpointConfigName"), _counts(before))
        serves = (after.get("EndpointConfigName"), _counts(after))
        if ran.code == 5 and served != serves:
            self.blame("it refused, and changed what serves", ran)
        if ran.code not in (0, 5) and standing == "in-step" and served != serves:
            self.blame("it failed, and what it changed is in-step", ran)
        if not ran.code:
            self._require_done(ran, status, before, after)

    def _require_done(self, ran: Ran, status: Ran, before: dict[str, Any], after: dict[str, Any]) -> None:
        """What the command means, after it succeeded."""
        command = self.command.split()[0]
        is_named = self.state == "role deleted" and f"role role-{self.name}: not found" in ran.output
        # An unchanged `up` asks only whether the role exists: what it lacks is for `status` and `plan` to say.
        is_named = is_named or self.state.startswith("rights removed")
        if command == "up" and status.code and not is_named:
            self.blame("up succeeded, and status says otherwise", status)
        if command == "up" and (plan := self.lmi("ada", "plan", "r.yaml", "--exit-code")).code:
            self.blame("up succeeded, and plan has more to do", plan)
        if command == "scale" and _counts(after) != [2]:
            self.blame(f"scale to 2 succeeded: {_counts(after)}", ran)
        if command == "rollback" and before.get("EndpointConfigName") == after.get("EndpointConfigName"):
            self.blame("rollback succeeded, and the same config serves", ran)
        if command == "gc" and before and bool(after) == (self.state == "expired"):
            self.blame("gc deleted what has not expired, or left what has", ran)
        if self.command == "bootstrap" and after and not self.able():
            self.blame("bootstrap succeeded, and the role of what runs still lacks a right", ran)
        if command == "down":
            self._require_gone(ran, after)

    def _require_gone(self, ran: Ran, after: dict[str, Any]) -> None:
        sagemaker = self.aws.client("sagemaker")
        left = [one["ModelName"] for one in sagemaker.list_models(NameContains=self.name)["Models"]]
        configs = sagemaker.list_endpoint_configs(NameContains=self.name)["EndpointConfigs"]
        left += [one["EndpointConfigName"] for one in configs]
        if after or left:
            self.blame(f"down succeeded, and leaves {left or self.name}", ran)

    def _require_bill(self) -> None:
        self.look()
        now = datetime.fromtimestamp(float(self.aws.get("/_clock")["now"]), UTC)
        found, reported = defaultdict[str, float](float), Ran("", 0, [], "")
        for month in sorted({f"{now - timedelta(days=back):%Y-%m}" for back in range(0, 62, 7)}):
            reported = self.lmi("ada", "cost", "--month", month)
            for line in reported.lines:
                if line.get("event") == "row" and line["name"] == self.name:
                    found[line["instance"]] += line["hours"]
        share, hours = _TOLERANCE
        for instance in found.keys() | self.hours.keys():
            if abs(found[instance] - self.hours[instance]) > hours + share * self.hours[instance]:
                ran = ", ".join(f"{name} {value:.1f} h" for name, value in sorted(self.hours.items()))
                self.blame(f"cost says {dict(found)}, and there ran {ran}", reported)

    def blame(self, what: str, ran: Ran) -> None:
        output = ran.output[-1500:].replace("\n", "\n    ")
        story = f"story {self.number} ({self.state}; {self.command})"
        self.wrong.append(f"{story}: {what}\n    $ {ran.words}: exit {ran.code}\n    {output}")

    def deploy(self, length: int) -> Ran:
        return self.lmi("ada", "up", self.recipe("ada", length=length), "--yes")

    def bootstrap(self, *more: str, model: str = "m", region: str = REGION) -> Ran:
        return self.lmi(
            "root", "bootstrap", self.recipe("root", length=64, model=model), "--yes", *more, region=region
        )


def _counts(endpoint: dict[str, Any]) -> list[int]:
    return [one["DesiredInstanceCount"] for one in endpoint.get("ProductionVariants", ())]


STATES: dict[str, Callable[[Story], object]] = {
    "nothing": lambda story: None,
    "scaled": lambda story: story.must("ben", "scale", story.name, "3", "--yes"),
    "rolled back": lambda story: story.must("ben", "rollback", story.name, "--yes"),
    "expired": lambda story: None,
    "model deleted": Story.model_deleted,
    "config deleted": Story.config_deleted,
    "config of the console": Story.other_config,
    "scaled elsewhere": Story.scaled_elsewhere,
    "rights removed": Story.rights_removed,
    "rights removed, record lost": Story.rights_removed_and_record_lost,
    "role deleted": Story.role_deleted,
    "record lost": Story.record_lost,
    "endpoint deleted": Story.endpoint_deleted,
    "other model set up": lambda story: story.bootstrap(model="other"),
    "other region set up": lambda story: story.bootstrap(region="eu-west-1"),
}
COMMANDS: dict[str, Callable[[Story], Ran]] = {
    "up the same": lambda story: story.deploy(128),
    "up an earlier version": lambda story: story.deploy(64),
    "up a new version": lambda story: story.deploy(256),
    "rollback": lambda story: story.lmi("ada", "rollback", story.name, "--yes"),
    "scale": lambda story: story.lmi("ada", "scale", story.name, "2", "--yes"),
    "extend": lambda story: story.lmi("ada", "extend", story.name, "8h"),
    "gc": lambda story: story.lmi("ada", "gc", "--yes"),
    "plan": lambda story: story.lmi("ada", "plan", "r.yaml"),
    "down": lambda story: story.lmi("ada", "down", story.name, "--yes"),
    "bootstrap": Story.bootstrap,
    "bootstrap --delete": lambda story: story.bootstrap("--delete"),
}


def drawn(count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Different pairs of a state and a command."""
    pairs = [(state, command) for state in STATES for command in COMMANDS]
    random.Random(seed).shuffle(pairs)
    yield from pairs[:count]
