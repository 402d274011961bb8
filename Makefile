# Two commands for a stranger: `make quickstart` and `make test`. Both do all the set-up they need, may be run twice
# and in any order, and say what they do. The rest is for people who work on lmi: see CONTRIBUTING.md.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: quickstart test test-landing test-all setup lint unit test-clients test-engines test-pythons bless reference docs picture recording bench fuzz dist kills clean help lock wheelhouse

help:  ## What there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

quickstart: $(BIN)/.runnable  ## Deploy a real model on this machine, ask it, say what to do next (ENGINE=vllm: behind vLLM)
	@$(BIN)/python -m tools.quickstart $(ENGINE)

test: setup  ## Lint, types, and tests of every layer: ten minutes on two cores
	@$(BIN)/python -m tools.check

test-landing: setup  ## What .ci/run runs after `make test`: the other tests, rehearsals, clients and real engines
	@$(BIN)/python -m tools.check --tier landing

test-all: setup  ## Everything, at length: also the whole crash matrix, other Pythons, fuzzing and random kills (hours)
	@$(BIN)/python -m tools.check
	@$(BIN)/python -m tools.check --tier landing
	@$(BIN)/python -m tools.check --tier long

# What the quickstart needs, and no tool of development.
$(BIN)/.runnable: requirements/quickstart.txt pyproject.toml tools/setup.py
	@$(PYTHON) tools/setup.py $(VENV) quickstart
	@touch $@

setup: $(BIN)/.ready

$(BIN)/.ready: requirements/dev.txt pyproject.toml tools/setup.py
	@$(PYTHON) tools/setup.py $(VENV) dev
	@touch $@ $(BIN)/.runnable

lint: setup  ## Format, lint and types only
	@$(BIN)/python -m tools.check lint

unit: setup  ## The fast tests only: unit and golden
	@$(BIN)/python -m tools.check lint unit

test-clients: setup  ## OpenAI's client library, LangChain, curl and a load tool against `lmi proxy`
	@$(BIN)/python -m tools.check clients

test-engines: setup  ## Real engines in environments of their own (6.9 GB vLLM, 4.5 GB DeepSpeed; kept in lmi's cache)
	@$(BIN)/python -m tools.check engines

test-pythons: setup  ## Unit, golden and functional tests on the other Pythons that lmi supports, as far as they are on this machine
	@$(BIN)/python -m tools.pythons --functional

bless: setup  ## Take today's output as the golden files
	@$(BIN)/python -m pytest -q tests/golden --bless

reference: setup  ## Write the generated pages in docs/ again
	@$(BIN)/python -m tools.reference

docs: setup  ## Build the site of docs/ strictly: .build/site/index.html
	@$(BIN)/python -m tools.site

picture: setup  ## Run the quickstart and draw its output as docs/quickstart.svg
	@$(BIN)/python -m tools.picture

recording: setup  ## Record up, Ctrl-C, up, invoke and down on the emulator: docs/session.cast and .svg
	@$(BIN)/python -m tools.recording

bench: setup  ## Measure every published figure, write benchmarks/results/ and docs/performance.md
	@$(BIN)/python -m benchmarks

fuzz: setup  ## 100,000 generated recipes, and 2,000 examples of each property test, of which `make test` takes 25
	@$(BIN)/python -m tools.fuzz --cases 100000
	@$(BIN)/python -m pytest -q tests/unit -m hypothesis --hypothesis-profile=fuzz -n 2

dist: setup  ## Build and check the packages of a release, with their SBOM: dist/ (REPOSITORY=https://...: project URLs)
	@$(BIN)/python -m tools.dist $(if $(REPOSITORY),--repository $(REPOSITORY))

kills: setup  ## 200 random kills and 60 rounds of random faults on the emulator, with lag (half an hour on two cores)
	@$(BIN)/python -m tools.kills --lag tags=300,reads=5,roles=10 $(KILLS)

wheelhouse: setup  ## Fill the folder wheelhouse/ for machines without a registry (about 3 GB; LMI_WHEELHOUSE=wheelhouse there)
	@$(BIN)/python -m tools.wheelhouse wheelhouse

lock: setup  ## Pin the development requirements again, with hashes
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 --extra local --extra bench --extra emulator --extra hub --extra proxy \
	  --group dev pyproject.toml -o requirements/dev.txt
	@$(BIN)/uv pip compile -q --generate-hashes --universal --python-version 3.11 --extra local -c requirements/dev.txt \
	  pyproject.toml requirements/quickstart.in -o requirements/quickstart.txt
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 requirements/clients.in \
	  -o requirements/clients.txt
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 \
	  requirements/openai-clients.in -o requirements/openai-clients.txt
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 \
	  requirements/load-tools.in -o requirements/load-tools.txt
	@for tool in guidellm aiperf; do $(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 \
	  requirements/$$tool.in -o requirements/$$tool.txt || exit 1; done
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 requirements/policies.in \
	  -o requirements/policies.txt
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 requirements/pipelines.in \
	  -o requirements/pipelines.txt
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 requirements/stacks.in \
	  -o requirements/stacks.txt
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 requirements/mutants.in \
	  -o requirements/mutants.txt
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 requirements/dist.in \
	  -o requirements/dist.txt
	@$(BIN)/uv pip compile -q --generate-hashes --universal --python-version 3.11 --extra bench -c requirements/dev.txt \
	  pyproject.toml requirements/notebook.in -o requirements/notebook.txt
	@$(BIN)/uv pip compile -q --upgrade --generate-hashes --universal --python-version 3.11 requirements/docs.in \
	  -o requirements/docs.txt

clean:  ## Remove what the commands above made in this folder
	rm -rf $(VENV) .build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
