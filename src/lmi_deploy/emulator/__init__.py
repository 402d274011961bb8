"""SageMaker on this machine as a program, and the fault rules that it shares with the other emulated servers."""
