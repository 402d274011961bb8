# Written by `lmi export` 0.1.0 from the recipe adapters (spec 9e92aee12e5f20fa, artifact e2f508ac13cf0f9b).
# Change the recipe and export again: the next export replaces changes that are made here.
#
# These objects must be in S3 before the stack is applied; `lmi export RECIPE --upload` puts them there:
#   s3://lmi-111122223333-us-east-1/artifacts/adapters/exported/35d7dda4f63582e4/  (the artifact, 5 files)
#   s3://lmi-111122223333-us-east-1/weights/Qwen--Qwen2.5-7B-Instruct/a09a35458c702b33eeacc393d103063234e8bc28-1dd55cb3/  (the weights of Qwen/Qwen2.5-7B-Instruct, 15.2 GB)
#   s3://lmi-111122223333-us-east-1/weights/Qwen--Qwen2.5-0.5B-Instruct/028afa8664063c9ccd949d17f423a833eeb089e7-3f4b7ee4/  (the draft model Qwen/Qwen2.5-0.5B-Instruct, 1.00 GB)
#
# The resources belong to the stack. `lmi down` and `lmi gc` never change them, and keep these objects.
# What `lmi up` does and this stack does not:
# - check permissions, quotas and the fit of the model before anything is created
# - send a real request at the end, and return to the previous version if it is not answered
# - explain a failure by the log of the container

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = { source = "hashicorp/aws", version = ">= 6.22.0" }
  }
}

variable "endpoint_name" {
  description = "The name of the endpoint."
  type        = string
  default     = "adapters"
}

variable "execution_role_arn" {
  description = "The role of the endpoint; lmi iam --part execution prints its policy."
  type        = string
  default     = "arn:aws:iam::111122223333:role/lmi-endpoint"
}

variable "bucket" {
  description = "The bucket of artifact and weights. The artifact refers to it, too: for another bucket, export again with --set endpoint.bucket=NAME."
  type        = string
  default     = "lmi-111122223333-us-east-1"
}

locals {
  versioned_name = "adapters-${substr(sha256(jsonencode(["18bef408bb3943f9", var.execution_role_arn, var.bucket])), 0, 10)}"
}

resource "aws_sagemaker_model" "model" {
  name               = local.versioned_name
  execution_role_arn = var.execution_role_arn

  tags = {
    exported-by = "lmi"
  }

  primary_container {
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130"

    environment = {
      SERVING_FAIL_FAST = "true"
    }

    model_data_source {
      s3_data_source {
        s3_uri           = "s3://${var.bucket}/artifacts/adapters/exported/35d7dda4f63582e4/"
        s3_data_type     = "S3Prefix"
        compression_type = "None"
      }
    }

    additional_model_data_source {
      channel_name = "draft"

      s3_data_source {
        s3_uri           = "s3://${var.bucket}/weights/Qwen--Qwen2.5-0.5B-Instruct/028afa8664063c9ccd949d17f423a833eeb089e7-3f4b7ee4/"
        s3_data_type     = "S3Prefix"
        compression_type = "None"
      }
    }
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_sagemaker_endpoint_configuration" "config" {
  name = local.versioned_name

  tags = {
    exported-by = "lmi"
  }

  production_variants {
    variant_name                                      = "main"
    model_name                                        = aws_sagemaker_model.model.name
    instance_type                                     = "ml.g5.2xlarge"
    initial_instance_count                            = 1
    initial_variant_weight                            = 1.0
    model_data_download_timeout_in_seconds            = 600
    container_startup_health_check_timeout_in_seconds = 600
    inference_ami_version                             = "al2023-ami-sagemaker-inference-gpu-4-1"

    routing_config {
      routing_strategy = "LEAST_OUTSTANDING_REQUESTS"
    }
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_sagemaker_endpoint" "endpoint" {
  name                 = var.endpoint_name
  endpoint_config_name = aws_sagemaker_endpoint_configuration.config.name

  tags = {
    exported-by = "lmi"
  }
}

output "endpoint_name" {
  value = aws_sagemaker_endpoint.endpoint.name
}

output "endpoint_arn" {
  value = aws_sagemaker_endpoint.endpoint.arn
}
