"""What the tests can find: small faults in the code (mutants), and which test finds each first.

`known.yaml` has defects that the project had or guards against, `drawn.yaml` those that `draw.py` drew at random.

    python -m tools.mutants record            run the tests once under coverage: which test executes which line
    python -m tools.mutants run [ID ...]      apply each mutant in a worktree, and run the tests that execute its lines

`run` writes results.json: the layer and the test that failed first, nearest layer first. With `--tier test` only tests
of `make test` count, with `--tier landing` those of `.ci/run`.
"""
