"""The plan of a deployment as a CloudFormation template or a Terraform configuration. Pure, but for `exporter`."""
