# Written by `lmi export` 0.1.0 from the recipe smollm2-g5 (spec 43b4fa17d98493dd, artifact 6a296e082ec298ae).
# Change the recipe and export again: the next export replaces changes that are made here.
#
# These objects must be in S3 before the stack is applied; `lmi export RECIPE --upload` puts them there:
#   s3://lmi-111122223333-us-east-1/artifacts/smollm2-g5/exported/1888831eacec32b7/  (the artifact, 2 files)
#   s3://lmi-111122223333-us-east-1/weights/HuggingFaceTB--SmolLM2-135M-Instruct/7e27bd9f95328f0f3b08261d1252705110c806f8-b6663dea/  (the weights of HuggingFaceTB/SmolLM2-135M-Instruct, 272 MB)
#
# The resources belong to the stack. `lmi down` and `lmi gc` never change them, and keep these objects.
# What `lmi up` does and this stack does not:
# - check permissions, quotas and the fit of the model before anything is created
# - send a real request at the end, and return to the previous version if it is not answered
# - explain a failure by the log of the container
# - delete the endpoint when its ttl is over (8 h 00 min)
# - delete the requests and responses in the bucket with the endpoint
# - keep the number of instances in an update, which starts with the initial one again

terraform {
  required_version = ">= 1.5"

  required_providers {
    aws = { source = "hashicorp/aws", version = ">= 5.100.0" }
  }
}

variable "endpoint_name" {
  description = "The name of the endpoint."
  type        = string
  default     = "smollm2-g5"
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
  versioned_name = "smollm2-g5-${substr(sha256(jsonencode(["5449dc0e44258c24", var.execution_role_arn, var.bucket])), 0, 10)}"
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
        s3_uri           = "s3://${var.bucket}/artifacts/smollm2-g5/exported/1888831eacec32b7/"
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
    instance_type                                     = "ml.g5.xlarge"
    initial_instance_count                            = 1
    initial_variant_weight                            = 1.0
    model_data_download_timeout_in_seconds            = 600
    container_startup_health_check_timeout_in_seconds = 600
    inference_ami_version                             = "al2023-ami-sagemaker-inference-gpu-4-1"

    routing_config {
      routing_strategy = "LEAST_OUTSTANDING_REQUESTS"
    }
  }

  async_inference_config {
    output_config {
      s3_output_path  = "s3://${var.bucket}/async/smollm2-g5/output/"
      s3_failure_path = "s3://${var.bucket}/async/smollm2-g5/output/failures/"
    }

    client_config {
      max_concurrent_invocations_per_instance = 4
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

resource "aws_appautoscaling_target" "target" {
  service_namespace  = "sagemaker"
  resource_id        = "endpoint/${aws_sagemaker_endpoint.endpoint.name}/variant/main"
  scalable_dimension = "sagemaker:variant:DesiredInstanceCount"
  min_capacity       = 0
  max_capacity       = 4
}

resource "aws_appautoscaling_policy" "policy" {
  policy_type        = "TargetTrackingScaling"
  name               = "lmi-backlog"
  service_namespace  = aws_appautoscaling_target.target.service_namespace
  resource_id        = aws_appautoscaling_target.target.resource_id
  scalable_dimension = aws_appautoscaling_target.target.scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value       = 5.0
    scale_in_cooldown  = 300
    scale_out_cooldown = 300

    customized_metric_specification {
      namespace   = "AWS/SageMaker"
      metric_name = "ApproximateBacklogSizePerInstance"
      statistic   = "Average"

      dimensions {
        name  = "EndpointName"
        value = var.endpoint_name
      }
    }
  }
}

resource "aws_appautoscaling_policy" "policy2" {
  policy_type        = "StepScaling"
  name               = "lmi-step-from-zero"
  service_namespace  = aws_appautoscaling_target.target.service_namespace
  resource_id        = aws_appautoscaling_target.target.resource_id
  scalable_dimension = aws_appautoscaling_target.target.scalable_dimension

  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    cooldown                = 300
    metric_aggregation_type = "Average"

    step_adjustment {
      metric_interval_lower_bound = 0.0
      scaling_adjustment          = 1
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "scaling" {
  alarm_name          = "${var.endpoint_name}-scale-from-zero"
  alarm_description   = "Calls the scaling policy lmi-step-from-zero"
  namespace           = "AWS/SageMaker"
  metric_name         = "HasBacklogWithoutCapacity"
  statistic           = "Average"
  period              = 60
  evaluation_periods  = 2
  datapoints_to_alarm = 2
  threshold           = 1.0
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "missing"
  alarm_actions       = [aws_appautoscaling_policy.policy2.arn]

  dimensions = {
    EndpointName = var.endpoint_name
  }
}

output "endpoint_name" {
  value = aws_sagemaker_endpoint.endpoint.name
}

output "endpoint_arn" {
  value = aws_sagemaker_endpoint.endpoint.arn
}
