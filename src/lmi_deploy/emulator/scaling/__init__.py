"""Application Auto Scaling for SageMaker: targets, target tracking policies with their alarms, and their actions."""
