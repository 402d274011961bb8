# Written by `lmi export` 0.1.0 from the recipe qwen2-5-7b (spec e5af04e42771afdb, artifact 138b85c1b9a29d02).
# Change the recipe and export again: the next export replaces changes that are made here.
#
# These objects must be in S3 before the stack is applied; `lmi export RECIPE --upload` puts them there:
#   s3://lmi-111122223333-us-east-1/artifacts/qwen2-5-7b/exported/8202062e9fcafd3e/  (the artifact, 1 file)
#   s3://lmi-111122223333-us-east-1/weights/Qwen--Qwen2.5-7B-Instruct/a09a35458c702b33eeacc393d103063234e8bc28-1dd55cb3/  (the weights of Qwen/Qwen2.5-7B-Instruct, 15.2 GB)
#
# The resources belong to the stack. `lmi down` and `lmi gc` never change them, and keep these objects.
# What `lmi up` does and this stack does not:
# - check permissions, quotas and the fit of the model before anything is created
# - send a real request at the end, and return to the previous version if it is not answered
# - explain a failure by the log of the container
# - try the next instance type where ml.g5.2xlarge cannot be had: ml.g6.2xlarge, ml.g5.4xlarge, ml.g6.4xlarge

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = { source = "hashicorp/aws", version = ">= 5.100.0" }
  }
}

variable "endpoint_name" {
  description = "The name of the endpoint."
  type        = string
  default     = "qwen2-5-7b"
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

variable "environment_omp_num_threads" {
  description = "The value of the container's variable OMP_NUM_THREADS."
  type        = string
  sensitive   = true
}

variable "environment_search_api_secret_name" {
  description = "The value of the container's variable SEARCH_API_SECRET_NAME."
  type        = string
  sensitive   = true
}

locals {
  versioned_name = "qwen2-5-7b-${substr(nonsensitive(sha256(jsonencode(["b8cd30a30c306b8a", var.execution_role_arn, var.bucket, var.environment_omp_num_threads, var.environment_search_api_secret_name]))), 0, 10)}"
}

resource "aws_sagemaker_model" "model" {
  name               = local.versioned_name
  execution_role_arn = var.execution_role_arn

  tags = {
    exported-by = "lmi"
    team        = "search"
  }

  primary_container {
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.36.0-lmi27.0.0-cu130"

    environment = {
      OMP_NUM_THREADS        = var.environment_omp_num_threads
      SEARCH_API_SECRET_NAME = var.environment_search_api_secret_name
      SERVING_FAIL_FAST      = "true"
    }

    model_data_source {
      s3_data_source {
        s3_uri           = "s3://${var.bucket}/artifacts/qwen2-5-7b/exported/8202062e9fcafd3e/"
        s3_data_type     = "S3Prefix"
        compression_type = "None"
      }
    }
  }

  vpc_config {
    subnets            = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
    security_group_ids = ["sg-0123456789abcdef0"]
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_sagemaker_endpoint_configuration" "config" {
  name        = local.versioned_name
  kms_key_arn = "arn:aws:kms:us-east-1:111122223333:alias/models"

  tags = {
    exported-by = "lmi"
    team        = "search"
  }

  production_variants {
    variant_name                                      = "main"
    model_name                                        = aws_sagemaker_model.model.name
    instance_type                                     = "ml.g5.2xlarge"
    initial_instance_count                            = 1
    initial_variant_weight                            = 1.0
    model_data_download_timeout_in_seconds            = 1200
    container_startup_health_check_timeout_in_seconds = 1200
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
    team        = "search"
  }
}

output "endpoint_name" {
  value = aws_sagemaker_endpoint.endpoint.name
}

output "endpoint_arn" {
  value = aws_sagemaker_endpoint.endpoint.arn
}
