# Written by `lmi export` 0.1.0 from the recipe smollm2-g5 (spec 52b05a7c2d285f44, artifact 6a296e082ec298ae).
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
# - keep the number of instances in an update, which starts with the initial one again
# - leave the bounds of a scheduled action: an apply sets the target's own until the next action

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
  versioned_name = "smollm2-g5-${substr(sha256(jsonencode(["dff843d3cea4560e", var.execution_role_arn, var.bucket])), 0, 10)}"
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
  min_capacity       = 1
  max_capacity       = 4
}

resource "aws_appautoscaling_policy" "policy" {
  policy_type        = "TargetTrackingScaling"
  name               = "lmi-invocations"
  service_namespace  = aws_appautoscaling_target.target.service_namespace
  resource_id        = aws_appautoscaling_target.target.resource_id
  scalable_dimension = aws_appautoscaling_target.target.scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value       = 60.0
    scale_in_cooldown  = 600
    scale_out_cooldown = 60

    predefined_metric_specification {
      predefined_metric_type = "SageMakerVariantInvocationsPerInstance"
    }
  }
}

resource "aws_appautoscaling_policy" "policy2" {
  policy_type        = "TargetTrackingScaling"
  name               = "lmi-concurrency"
  service_namespace  = aws_appautoscaling_target.target.service_namespace
  resource_id        = aws_appautoscaling_target.target.resource_id
  scalable_dimension = aws_appautoscaling_target.target.scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value       = 8.0
    scale_in_cooldown  = 600
    scale_out_cooldown = 60

    predefined_metric_specification {
      predefined_metric_type = "SageMakerVariantConcurrentRequestsPerModelHighResolution"
    }
  }
}

resource "aws_appautoscaling_policy" "policy3" {
  policy_type        = "TargetTrackingScaling"
  name               = "lmi-metric"
  service_namespace  = aws_appautoscaling_target.target.service_namespace
  resource_id        = aws_appautoscaling_target.target.resource_id
  scalable_dimension = aws_appautoscaling_target.target.scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value       = 70.0
    scale_in_cooldown  = 600
    scale_out_cooldown = 60

    customized_metric_specification {
      namespace   = "/aws/sagemaker/Endpoints"
      metric_name = "GPUUtilization"
      statistic   = "Average"

      dimensions {
        name  = "EndpointName"
        value = var.endpoint_name
      }

      dimensions {
        name  = "VariantName"
        value = "main"
      }
    }
  }
}

resource "aws_appautoscaling_policy" "policy4" {
  policy_type        = "StepScaling"
  name               = "lmi-step-calm"
  service_namespace  = aws_appautoscaling_target.target.service_namespace
  resource_id        = aws_appautoscaling_target.target.resource_id
  scalable_dimension = aws_appautoscaling_target.target.scalable_dimension

  step_scaling_policy_configuration {
    adjustment_type         = "ChangeInCapacity"
    cooldown                = 300
    metric_aggregation_type = "Average"

    step_adjustment {
      metric_interval_upper_bound = 0.0
      scaling_adjustment          = -1
    }
  }
}

resource "aws_appautoscaling_policy" "policy5" {
  policy_type        = "StepScaling"
  name               = "lmi-step-queue"
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
      metric_interval_upper_bound = 50.0
    }

    step_adjustment {
      metric_interval_lower_bound = 50.0
      scaling_adjustment          = 3
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "scaling" {
  alarm_name          = "${var.endpoint_name}-scale-calm"
  alarm_description   = "Calls the scaling policy lmi-step-calm"
  namespace           = "AWS/SageMaker"
  metric_name         = "Invocations"
  statistic           = "Average"
  period              = 60
  evaluation_periods  = 10
  datapoints_to_alarm = 10
  threshold           = 5.0
  comparison_operator = "LessThanOrEqualToThreshold"
  treat_missing_data  = "missing"
  alarm_actions       = [aws_appautoscaling_policy.policy4.arn]

  dimensions = {
    EndpointName = var.endpoint_name
    VariantName  = "main"
  }
}

resource "aws_cloudwatch_metric_alarm" "scaling2" {
  alarm_name          = "${var.endpoint_name}-scale-queue"
  alarm_description   = "Calls the scaling policy lmi-step-queue"
  namespace           = "Chat"
  metric_name         = "Queue"
  statistic           = "Average"
  period              = 60
  evaluation_periods  = 2
  datapoints_to_alarm = 2
  threshold           = 20.0
  comparison_operator = "GreaterThanOrEqualToThreshold"
  treat_missing_data  = "missing"
  alarm_actions       = [aws_appautoscaling_policy.policy5.arn]
}

resource "aws_appautoscaling_scheduled_action" "action" {
  schedule           = "cron(0 20 ? * MON-FRI *)"
  timezone           = "Europe/Berlin"
  name               = "lmi-night"
  service_namespace  = aws_appautoscaling_target.target.service_namespace
  resource_id        = aws_appautoscaling_target.target.resource_id
  scalable_dimension = aws_appautoscaling_target.target.scalable_dimension

  scalable_target_action {
    min_capacity = 1
    max_capacity = 1
  }
}

resource "aws_appautoscaling_scheduled_action" "action2" {
  schedule           = "rate(2 hours)"
  name               = "lmi-often"
  service_namespace  = aws_appautoscaling_target.target.service_namespace
  resource_id        = aws_appautoscaling_target.target.resource_id
  scalable_dimension = aws_appautoscaling_target.target.scalable_dimension

  scalable_target_action {
    max_capacity = 3
  }
}

output "endpoint_name" {
  value = aws_sagemaker_endpoint.endpoint.name
}

output "endpoint_arn" {
  value = aws_sagemaker_endpoint.endpoint.arn
}
