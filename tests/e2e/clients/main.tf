# What somebody writes who deploys with Terraform: everything that an endpoint needs, and what is put beside it.
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}

provider "aws" {}

variable "generation" {}
variable "folder" {}
variable "image_tag" {}

data "aws_caller_identity" "me" {}

data "aws_region" "here" {}

data "aws_iam_policy_document" "trust" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["sagemaker.amazonaws.com"]
    }
  }
}

data "aws_sagemaker_prebuilt_ecr_image" "djl" {
  repository_name = "djl-inference"
  image_tag       = var.image_tag
}

resource "aws_iam_role" "exec" {
  name               = "tf-exec"
  assume_role_policy = data.aws_iam_policy_document.trust.json
  tags               = { owner = "terraform" }
}

resource "aws_iam_role_policy" "read" {
  role   = aws_iam_role.exec.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = ["s3:GetObject", "s3:ListBucket"], Resource = "*" }] })
}

resource "aws_s3_bucket" "artifacts" {
  bucket        = "tf-artifacts-${data.aws_caller_identity.me.account_id}"
  force_destroy = true
}

resource "aws_s3_object" "files" {
  for_each = fileset(var.folder, "**")
  bucket   = aws_s3_bucket.artifacts.id
  key      = "m/${each.value}"
  source   = "${var.folder}/${each.value}"
  etag     = filemd5("${var.folder}/${each.value}")
}

resource "aws_sagemaker_model" "model" {
  name               = "tf-model"
  execution_role_arn = aws_iam_role.exec.arn
  primary_container {
    image       = data.aws_sagemaker_prebuilt_ecr_image.djl.registry_path
    environment = { KEY = "value" }
    model_data_source {
      s3_data_source {
        s3_uri           = "s3://${aws_s3_bucket.artifacts.id}/m/"
        s3_data_type     = "S3Prefix"
        compression_type = "None"
      }
    }
  }
  depends_on = [aws_s3_object.files, aws_iam_role_policy.read]
}

resource "aws_sagemaker_endpoint_configuration" "config" {
  name = "tf-${var.generation}"
  production_variants {
    variant_name                                      = "AllTraffic"
    model_name                                        = aws_sagemaker_model.model.name
    instance_type                                     = "ml.g5.xlarge"
    initial_instance_count                            = 1
    container_startup_health_check_timeout_in_seconds = 300
  }
  tags = { generation = var.generation }
  lifecycle { create_before_destroy = true }
}

resource "aws_sagemaker_endpoint" "endpoint" {
  name                 = "tf-endpoint"
  endpoint_config_name = aws_sagemaker_endpoint_configuration.config.name
  tags                 = { owner = "terraform" }
}

resource "aws_appautoscaling_target" "target" {
  min_capacity       = 1
  max_capacity       = 3
  tags               = { a = "b" }
  resource_id        = "endpoint/${aws_sagemaker_endpoint.endpoint.name}/variant/AllTraffic"
  scalable_dimension = "sagemaker:variant:DesiredInstanceCount"
  service_namespace  = "sagemaker"
}

resource "aws_appautoscaling_policy" "policy" {
  name               = "load"
  policy_type        = "TargetTrackingScaling"
  resource_id        = aws_appautoscaling_target.target.resource_id
  scalable_dimension = aws_appautoscaling_target.target.scalable_dimension
  service_namespace  = aws_appautoscaling_target.target.service_namespace
  target_tracking_scaling_policy_configuration {
    target_value = 10
    predefined_metric_specification { predefined_metric_type = "SageMakerVariantInvocationsPerInstance" }
  }
}

resource "aws_cloudwatch_metric_alarm" "errors" {
  alarm_name          = "tf-errors"
  tags                = { a = "b" }
  comparison_operator = "GreaterThanThreshold"
  evaluation_periods  = 1
  metric_name         = "Invocation5XXErrors"
  namespace           = "AWS/SageMaker"
  period              = 60
  statistic           = "Sum"
  threshold           = 1
  dimensions          = { EndpointName = aws_sagemaker_endpoint.endpoint.name, VariantName = "AllTraffic" }
}

resource "aws_cloudwatch_log_group" "logs" {
  name              = "/aws/sagemaker/Endpoints/tf-other"
  retention_in_days = 7
  tags              = { a = "b" }
}

resource "aws_iam_role_policy_attachment" "full" {
  role       = aws_iam_role.exec.name
  policy_arn = "arn:aws:iam::aws:policy/AmazonSageMakerFullAccess"
}

data "aws_iam_policy" "full" { name = "AmazonSageMakerFullAccess" }
