"""SageMaker on this machine, a program, and the fault rules that stand-ins share."""
