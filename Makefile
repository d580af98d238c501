# estimator-pipeline: `make` lists what there is. Every target installs what it needs first.

SHELL       := /bin/bash
.SHELLFLAGS := -o pipefail -ec

# Every variable that can be given. From here on each holds its text as it was given: make would
# otherwise expand what is in it, so that $(shell …) runs and a $ disappears.
VARIABLES := A B BASELINE BUCKET BUILDER CALIBRATE_PS CALIBRATE_WORKERS CHECKPOINT CLUSTER CONFIG CORES CUDA DATA DEVICE DISK DRY_RUN ERROR_BUDGET EXPORT FAIL_IF FAULTS FIXED FOLLOW FORCE \
	FORMAT GROUP HEADER IMAGE INPUT KILLS KINDS LABEL LINK MATRIX MACHINE METHOD METRIC MODES NUM_WORKERS ONLY OUT OUTPUT PAGE PARALLEL PORT PREEMPTIONS PROJECT PS PYTHON RECORDS \
	REDUCTION REGION REPAIR ROLE ROWS RUN RUNGS SAMPLER SCHEMA SECONDS SEED SET SIGNATURE SIZE SLICES SORT SPACE SPLIT STATUS STORAGE STRATEGY TAG TAGS TARGET TRIALS WORKERS
define newline


endef
comma := ,
space := $(subst ,, )
# Paths below are those of the checkout.
$(if $(wildcard requirements.lock),,$(error run make in the folder of $(firstword $(MAKEFILE_LIST)), or with make -C; \
	the command estimator-pipeline works in any folder))
# Those of the command line: what the environment has may be for something else.
GIVEN := $(foreach v,$(VARIABLES),$(if $(filter command,$(firstword $(origin $(v)))),$(v)))
$(foreach v,$(VARIABLES),$(if $(filter-out undefined,$(origin $(v))),$(eval override $(v) := $$(value $(v)))))
$(foreach v,$(VARIABLES),$(if $(findstring $(newline),$($(v))),$(error $(v)= must be on one line)))

CONFIG   ?= mnist
CLUSTER  ?= local
# A place is a folder with a launcher; the table is pipeline/places.py.
PLACES   := $(patsubst pipeline/launchers/%/launcher.py,%,$(sort $(wildcard pipeline/launchers/*/launcher.py)))
STORAGE  ?= $(if $(and $(filter-out local,$(CLUSTER)),$(BUCKET)),gs://$(BUCKET)/estimator-pipeline,output)
# A target below calls make with another one; an exported VENV is of something else.
$(if $(filter command,$(firstword $(origin VENV))),$(if $(filter-out .venv-gcp,$(value VENV)),$(error VENV= cannot be given)))
override VENV := $(if $(filter command,$(firstword $(origin VENV))),$(value VENV),.venv)
PY       := $(VENV)/bin/python
# The command `estimator-pipeline`, whose table of commands is pipeline/command_line/table.py. What it says
# then calls what was given by its name here: WORKERS= rather than --workers=.
RUN_PY    = PIPELINE_VIA=make $(PY) -m
CLI       = $(RUN_PY) pipeline
# A value as the shell takes it, whatever is in it.
quoted    = '$(subst ','\'',$(1))'
given     = $(if $($(1)),--$(2)=$(call quoted,$($(1))))
# As text: a bucket may be called 2024.
as_text   = "$(subst ",\",$(subst \,\\,$(1)))"
setting   = $(if $($(1)),--set=$(call quoted,$(2)=$(call as_text,$($(1)))))
# Of a switch such as FORCE=1: whether it is on, however that is said.
on        = $(filter-out 0 no No NO off false False FALSE,$($(1)))

# The first Python that TensorFlow 2.15 has builds for; name another with PYTHON=. It is looked for
# once, and only to install: starting each of them may take a second.
PYTHON   ?= $(eval PYTHON := $(firstword $(foreach p,python3.11 python3.10 python3 python,$(shell \
	command -v $(p) >/dev/null 2>&1 && $(p) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 10), (3, 11)))' \
	>/dev/null 2>&1 && echo $(p)))))$(PYTHON)
RUN_PYTHON = $(call quoted,$(PYTHON))

# The command takes several settings from it.
OVERRIDES = $(call given,SET,set)
COMMON    = $(call given,CONFIG,config) $(call given,STORAGE,storage) $(OVERRIDES)
CLOUD     = $(call setting,PROJECT,gcp.project) $(call setting,REGION,gcp.region) $(call setting,BUCKET,gcp.bucket) \
	$(call setting,IMAGE,$(if $(filter k8s,$(CLUSTER)),k8s,gcp).image) $(if $(call on,DRY_RUN),--dry_run)
NEED_GCP  = tests/cloud/test_dataflow_runner.py tests/cloud/test_beam.py tests/pipeline/launchers/gcp/test_job_spec.py
# CONFIG= if it was given, not its default.
OF_CONFIG = $(if $(filter-out file,$(origin CONFIG)),$(call given,CONFIG,config))
OF_RUN    = $(call given,STORAGE,storage) $(call given,RUN,run) $(OF_CONFIG)

# pip as locked; a line of progress every 20 packages, its own words only if it fails.
pip_install = $(PY) -m pip install --disable-pip-version-check --progress-bar off --require-hashes -r $(1) \
	| awk -v all=$$(grep -c == $(1)) '/^(Collecting|Requirement already)/ && ++n % 20 == 0 {print "  " n " of " all " packages"; fflush()}'

# make itself ignores a variable that does not exist.
UNKNOWN  := $(foreach v,$(.VARIABLES),$(if $(filter command,$(firstword $(origin $(v)))),$(v)))
NEAREST   = $(shell $(RUN_PYTHON) -c 'import difflib, sys; print(*difflib.get_close_matches(sys.argv[1].upper(), sys.argv[2:], 1))' \
	$(call quoted,$(1)) $(VARIABLES))
# As settings: the keys of a config whose last part is $(1), or at least $(2) like it, by the page that is made of its models.
KEYS      = $(shell $(RUN_PYTHON) -c 'import difflib, re, sys; name, value, like = sys.argv[1:]; \
	page = open("docs/config.md").read().partition("\n\x23\x23 Feature steps")[0]; \
	rows = re.findall(r"^\| `([a-z0-9_.]+)` \| ([^|]*)", page, re.M); \
	keys = {key: key.rpartition(".")[2] for key, kind in rows if "section" not in kind}; \
	near = difflib.get_close_matches(name.lower(), keys.values(), 1, float(like)); \
	value = value if re.fullmatch(r"[\w.,+-]+", value) else "..."; \
	print(*[f"SET=\"{key}={value}\"" for key in keys if keys[key] in near or key == name][:3], sep=" or ")' \
	$(call quoted,$(1)) $(call quoted,$(value $(1))) $(2) 2>/dev/null)
SETTING  := Settings of a config are given as
keyed     = $(if $(1),. $(SETTING) $(1))
near      = $(if $(1), (did you mean $(1)=?). $(SETTING) SET="train.steps=500")
# All names are listed only if none is close to what was typed.
unknown   = $(or $(call keyed,$(call KEYS,$(1),1)),$(call near,$(call NEAREST,$(1))),$(call keyed,$(call KEYS,$(1),0.85)),. $(SETTING) \
	SET="train.steps=500"; variables of make are $(subst $(space),$(comma) ,$(strip $(VARIABLES))))
$(foreach v,$(UNKNOWN),$(error $(v)= does not exist$(call unknown,$(v))))
# Nor one that a target does not take, except STORAGE, which messages and help print for all targets.
# Its recipe says which: awk prints target:VARIABLE for each that
# is in it, or in what it is made of, such as COMMON; and target: for itself.
TAKEN    := $(if $(GIVEN),$(shell awk -v names='$(VARIABLES)' -v shared='COMMON CLOUD OF_CONFIG OF_RUN OVERRIDES' '\
	/^[A-Za-z_-]+( *=|:)/ {name = $$1; sub(/:.*/, "", name); if (/^[a-z-]+:.*\#\# /) order[++n] = name} \
	{sub(/\#\# .*/, ""); text[name] = text[name] $$0} \
	END {split(names, v, " "); m = split(shared, s, " "); for (i = 1; i <= n; i++) {t = text[order[i]]; printf "%s: ", order[i]; \
	for (again = 0; again < 2; again++) for (j = 1; j <= m; j++) if (index(t, "$$(" s[j] ")")) t = t text[s[j]]; \
	for (j in v) if (t ~ "[(,]" v[j] "[,)]") printf "%s:%s ", order[i], v[j]}}' $(firstword $(MAKEFILE_LIST))))
GOALS    := $(if $(MAKECMDGOALS),$(MAKECMDGOALS),help)
list      = $(subst $(space),$(comma) ,$(strip $(1)))
takers    = $(foreach t,$(TAKEN),$(if $(filter $(1),$(lastword $(subst :, ,$(t)))),$(firstword $(subst :, ,$(t)))))
takes     = $(sort $(foreach g,$(GOALS),$(patsubst $(g):%,%,$(filter $(g):%,$(TAKEN)))))
$(if $(filter-out $(TAKEN),$(addsuffix :,$(GOALS))),,$(foreach v,$(filter-out PYTHON STORAGE $(takes),$(GIVEN)),$(error $(v)= does not exist \
	for $(call list,$(GOALS)), only for $(call list,$(call takers,$(v))); it must be one of $(call list,$(takes) PYTHON))))

.DEFAULT_GOAL := help
# A goal that is neither a target nor a file.
.DEFAULT:
	@found=$$(awk -F : '/^[a-z-]+:.*## / {print $$1}' $(firstword $(MAKEFILE_LIST)) | $(RUN_PYTHON) -c \
		'import difflib, sys; print(*difflib.get_close_matches(sys.argv[1], sys.stdin.read().split(), 1))' $(call quoted,$@)); \
		echo "error: there is no target" $(call quoted,$@)"$${found:+ (did you mean make $$found?)}; make help lists them" >&2; exit 64
.PHONY: help setup data config schema preprocess clean-records replay-dead-letter stats drift verify train evaluate migrate replay predict serve report compare tune plan chaos ledger tensorboard runs status logs stop scale image doctor test test-fast test-slow test-matrix test-gcp soak docs lint bench bench-peers lock clean

help: ## list the targets
	@echo 'estimator-pipeline: raw data to a trained, exported TensorFlow Estimator.  Start with: make train'
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  CONFIG=mnist|path.yaml  CLUSTER=$(subst $(space),|,$(PLACES))  STRATEGY=none|parameter_server  WORKERS=n  PS=n  RUN=name'
	@echo '  SET="train.steps=500 train.batch_size=64"  STORAGE=output  INPUT=rows.csv (predict)  ONLY=name (bench, bench-peers)'

setup: $(VENV)/.installed ## install into .venv from the hash-pinned lock file
	@echo "$(VENV) is up to date"

$(VENV)/.installed: requirements.lock setup.py
	@$(if $(PYTHON),:,echo "error: no Python 3.10 or 3.11 found; TensorFlow 2.15, the last with Estimators, has builds for no newer one. Install one of them, or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 64)
	@command -v $(RUN_PYTHON) >/dev/null && $(RUN_PYTHON) -c '' 2>/dev/null || { echo error: PYTHON=$(RUN_PYTHON) "cannot be run; give the path of a Python 3.10 or 3.11" >&2; exit 64; }
	@$(RUN_PYTHON) -c 'import sys; v = sys.version_info[:2]; v in ((3, 10), (3, 11)) or sys.exit("error: Python %d.%d: this needs 3.10 or 3.11, because TensorFlow 2.15, the last with Estimators, has builds for no newer one. Name one: make setup PYTHON=/path/to/python3.11" % v)'
	@$(RUN_PYTHON) -c 'import ensurepip' 2>/dev/null || { echo error: $(RUN_PYTHON) "cannot make virtual environments; install its venv package (Debian, Ubuntu: apt install python3-venv)" >&2; exit 64; }
	@echo "installing into $(VENV) (TensorFlow is 450 MB; a few minutes the first time)"
	@# Into the one there is, if it works: jobs may be running from it.
	@found=$$($(PY) -c 'import pip, sys; print(*sys.version_info[:2])' 2>/dev/null || true); \
		test "$$found" = "$$($(RUN_PYTHON) -c 'import sys; print(*sys.version_info[:2])')" || $(RUN_PYTHON) -m venv --clear $(VENV)
	@$(call pip_install,requirements.lock)
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.lock
	@echo "installing what tests need"
	@$(call pip_install,requirements-dev.lock)
	@touch $@

$(VENV)/.installed-bench: $(VENV)/.installed-dev requirements-bench.lock
	@echo "installing what benchmarks need: scikit-learn, and tables"
	@$(call pip_install,requirements-bench.lock)
	@touch $@

$(VENV)/.installed-tune: $(VENV)/.installed requirements-tune.lock
	@echo "installing what make tune needs: Optuna"
	@$(call pip_install,requirements-tune.lock)
	@touch $@

$(VENV)/.installed-gcp: $(VENV)/.installed requirements-gcp.lock
	@echo "installing what Beam needs for Dataflow"
	@$(call pip_install,requirements-gcp.lock)
	@touch $@

$(VENV)/.installed-test-gcp: $(VENV)/.installed-dev requirements-gcp.lock tests/cloud/requirements.lock
	@echo "installing what Beam needs for Dataflow, and its tests"
	@$(call pip_install,requirements-gcp.lock)
	@$(call pip_install,tests/cloud/requirements.lock)
	@touch $@

data: $(VENV)/.installed ## fetch or make the raw data of CONFIG (flights, ranking)
	@$(CLI) data $(call given,CONFIG,config) $(OVERRIDES)

config: $(VENV)/.installed ## print CONFIG with all its values; with SCHEMA=1 a JSON Schema of configs, for editors
	@$(CLI) config $(call given,CONFIG,config) $(OVERRIDES) $(if $(call on,SCHEMA),--schema)

schema: $(if $(DATA),$(VENV)/.installed) ## write a first config, OUT=, for the raw data in DATA=file, pattern or folder; LABEL=column HEADER=0|1
	@$(if $(DATA),:,echo "error: name the raw data: make schema DATA=path [OUT=config.yaml] [LABEL=column] [HEADER=0|1]" >&2; exit 64)
	@$(CLI) schema $(call given,DATA,data) $(call given,OUT,out) $(call given,LABEL,label) $(call given,HEADER,header)

preprocess: $(VENV)/.installed $(if $(filter gcp,$(CLUSTER)),$(if $(call on,DRY_RUN),,$(VENV)/.installed-gcp)) ## raw data to records, in STORAGE/records/CONFIG; again if up to date with FORCE=1
	@$(CLI) preprocess $(COMMON) $(CLOUD) $(call given,CLUSTER,cluster) $(call given,NUM_WORKERS,num_workers) \
		$(if $(call on,FORCE),--force)

clean-records: $(VENV)/.installed ## list the builds of all records (or of CONFIG=), and remove those that no run names; named ones too with FORCE=1
	@$(CLI) clean-records $(OF_CONFIG) \
		$(call given,STORAGE,storage) $(if $(call on,FORCE),--force) $(if $(call on,DRY_RUN),--dry_run)

replay-dead-letter: $(VENV)/.installed ## make CONFIG's records again with the dead letters you corrected, in place or in FIXED=
	@$(CLI) replay-dead-letter $(COMMON) $(call given,FIXED,fixed) $(call given,NUM_WORKERS,num_workers)

stats: $(VENV)/.installed ## a page with a plot per column and split of CONFIG's records
	@$(CLI) stats $(COMMON)

drift: $(if $(and $(A),$(B)),$(VENV)/.installed) ## compare records A= with B= (names, folders, name:split); limits of CONFIG= if given
	@$(if $(and $(A),$(B)),:,echo "error: name two sets of records: make drift A=flights:train B=flights:eval" >&2; exit 64)
	@$(CLI) drift $(call given,A,a) $(call given,B,b) $(call given,STORAGE,storage) \
		$(OF_CONFIG) $(OVERRIDES)

verify: $(VENV)/.installed ## walk the records of CONFIG (or of RECORDS=); REPAIR=1 leaves out what is damaged
	@$(CLI) verify $(call given,CONFIG,config) $(call given,STORAGE,storage) $(call given,RECORDS,records) \
		$(if $(call on,REPAIR),--repair)

train: $(VENV)/.installed ## preprocess if needed, then train, evaluate and export
	@$(CLI) train $(COMMON) $(CLOUD) $(call given,CLUSTER,cluster) $(call given,RUN,run) \
		$(call given,STRATEGY,strategy) $(call given,WORKERS,workers) $(call given,PS,ps)

evaluate: $(VENV)/.installed ## metrics of RUN with intervals, of SPLIT=, by SLICES= and GROUP=, of CHECKPOINT=step, best or all
	@$(CLI) evaluate $(OF_RUN) $(call given,SPLIT,split) $(call given,SLICES,slices) \
		$(call given,GROUP,group) $(call given,CHECKPOINT,checkpoint)

migrate: $(VENV)/.installed ## turn RUN, or its CHECKPOINT=step, best or all, into a Keras 2 model and a TF2 SavedModel
	@$(CLI) migrate $(OF_RUN) $(call given,CHECKPOINT,checkpoint)

replay: $(VENV)/.installed ## reproduce the steps that led to RUN's NaN loss
	@$(CLI) replay $(OF_RUN)

predict: $(VENV)/.installed ## predictions of RUN's exported model for INPUT= (rows, images), or the test split, to OUTPUT=
	@$(CLI) predict $(OF_RUN) $(call given,INPUT,input) $(call given,OUTPUT,output) $(call given,FORMAT,format) \
		$(call given,EXPORT,export) $(call given,SIGNATURE,signature) $(call given,ERROR_BUDGET,error_budget) $(call given,ROWS,rows) $(call given,NUM_WORKERS,num_workers)

serve: $(VENV)/.installed ## answer TensorFlow Serving's REST API with RUN's exported model, on http://127.0.0.1:8501 (PORT=)
	@$(CLI) serve $(OF_RUN) $(call given,PORT,port) $(call given,EXPORT,export)

report: $(VENV)/.installed ## a page on RUN: result, curves, where the time went, what happened when
	@$(CLI) report $(OF_RUN)

compare: $(if $(and $(A),$(B)),$(VENV)/.installed) ## compare runs B= with run A=: metrics on the same records of SPLIT=, config, data, time; FAIL_IF=worse
	@$(if $(and $(A),$(B)),:,echo "error: name two runs: make compare A=run B=run" >&2; exit 64)
	@$(CLI) compare $(call given,A,a) $(call given,B,b) $(call given,STORAGE,storage) $(call given,SPLIT,split) \
		$(call given,SLICES,slices) $(call given,CHECKPOINT,checkpoint) $(call given,METRIC,metric) $(call given,FAIL_IF,fail_if)

tune: $(if $(and $(OF_CONFIG),$(SPACE)),$(VENV)/.installed-tune) ## search for settings of CONFIG by SPACE=space.yaml: TRIALS=30, PARALLEL=1, METHOD=asha, median, pbt or full
	@$(if $(and $(OF_CONFIG),$(SPACE)),:,echo "error: name the job and the values to try: make tune CONFIG=flights SPACE=space.yaml [TRIALS=30] [PARALLEL=1]" >&2; exit 64)
	@$(CLI) tune $(COMMON) $(CLOUD) $(call given,CLUSTER,cluster) $(call given,RUN,run) $(call given,STRATEGY,strategy) \
		$(call given,WORKERS,workers) $(call given,PS,ps) $(call given,SPACE,space) $(call given,TRIALS,trials) \
		$(call given,PARALLEL,parallel) $(call given,METHOD,method) $(call given,SAMPLER,sampler) $(call given,SEED,seed) \
		$(call given,RUNGS,rungs) $(call given,REDUCTION,reduction)

plan: $(if $(OF_CONFIG),$(VENV)/.installed) ## how fast CONFIG would train with WORKERS=1,2,4 and PS=1,2, what limits it and costs; TARGET="examples_per_second=9000"
	@$(if $(OF_CONFIG),:,echo "error: name the job to plan: make plan CONFIG=mnist [WORKERS=1,2,4,8] [PS=1,2] [TARGET=hours=2]" >&2; exit 64)
	@$(CLI) plan $(OF_CONFIG) $(call given,STORAGE,storage) $(OVERRIDES) $(call given,STRATEGY,strategy) \
		$(call given,WORKERS,workers) $(call given,PS,ps) $(call given,CORES,cores) $(call given,LINK,link) $(call given,DISK,disk) \
		$(call given,TARGET,target) $(call given,PREEMPTIONS,preemptions) $(call given,MACHINE,machine) $(call given,SECONDS,seconds) \
		$(call given,CALIBRATE_WORKERS,calibrate_workers) $(call given,CALIBRATE_PS,calibrate_ps)

chaos: $(if $(OF_CONFIG),$(VENV)/.installed) ## break CONFIG's job on purpose, FAULTS=20 by SEED=, in SECONDS=300 of training, and check how it ends
	@$(if $(OF_CONFIG),:,echo "error: name the job to break: make chaos CONFIG=mnist [FAULTS=20] [SECONDS=300] [SEED=7]" >&2; exit 64)
	@$(CLI) chaos $(OF_CONFIG) $(call given,STORAGE,storage) $(OVERRIDES) $(call given,STRATEGY,strategy) \
		$(call given,WORKERS,workers) $(call given,PS,ps) $(call given,FAULTS,faults) $(call given,SECONDS,seconds) \
		$(call given,SEED,seed) $(call given,BASELINE,baseline) $(call given,KINDS,kinds)

ledger: $(VENV)/.installed ## how often the records of each epoch have trained RUN
	@$(CLI) ledger $(OF_RUN)

tensorboard: $(VENV)/.installed ## curves of all runs, on http://localhost:6006
	@$(CLI) tensorboard $(call given,STORAGE,storage) $(call given,PORT,port)

runs: $(VENV)/.installed ## all runs in STORAGE (of CONFIG=, STATUS=, TAG=) by SORT=metric; TAGS= of RUN=; PAGE=1 writes runs.html
	@$(CLI) runs $(call given,STORAGE,storage) $(OF_CONFIG) $(call given,STATUS,status) $(call given,TAG,tag) \
		$(call given,SORT,sort) $(call given,RUN,run) $(call given,TAGS,tags) $(if $(call on,PAGE),--page)

status: $(VENV)/.installed ## how every process of RUN is doing
	@$(CLI) status $(OF_RUN)

logs: $(VENV)/.installed ## what the processes of RUN (or ROLE=worker, worker-1) have logged; FOLLOW=1 continues
	@$(CLI) logs $(OF_RUN) $(call given,ROLE,role) $(if $(call on,FOLLOW),--follow)

stop: $(VENV)/.installed ## ask RUN to save, evaluate, export and end
	@$(CLI) stop $(OF_RUN)

scale: $(VENV)/.installed ## change the number of workers of RUN to WORKERS=n while it trains
	@$(CLI) scale $(OF_RUN) $(call given,WORKERS,workers)

image: $(VENV)/.installed ## build and push the images of jobs as IMAGE=registry/path:tag, for GPUs too with CUDA=1; BUILDER=docker|podman|gcloud
	@$(CLI) image $(call given,IMAGE,image) $(call given,BUILDER,builder) $(if $(call on,CUDA),--cuda)

doctor: $(VENV)/.installed ## check versions, devices, disk, ports and STORAGE; what CLUSTER= needs here; matrix products of DEVICE=cpu:0 and SIZE=256,1024
	@$(CLI) doctor $(call given,STORAGE,storage) $(call given,CLUSTER,cluster) $(call given,DEVICE,device) $(call given,SIZE,size)

# Every test is fast, or else heavy, or slow. They start thousands of processes: each would compile
# all that it imports where Python was told to keep nothing of that.
PYTEST    = PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m

test: lint ## lint, types, and the tests of every change: about 10 minutes on 2 idle cores
	@$(PYTEST) "not slow"

test-fast: lint ## lint, types, and the tests that need no TensorFlow, Beam or processes: about a minute
	@$(PYTEST) "not slow and not heavy"

test-slow: $(VENV)/.installed-dev ## what make test leaves out: schedulers, shipped jobs, more cases of each guarantee
	@$(PYTEST) "slow and not matrix"

test-matrix: $(VENV)/.installed-dev ## hours: the longest tests and the rest of all matrices, such as each mode resumed under each, and all Estimators of DeepCTR
	@$(PYTEST) matrix

# Not in .venv: of some packages, the extra takes older versions.
test-gcp: ## the tests that need what Beam needs for Dataflow, in a .venv-gcp of their own
	@$(MAKE) -s VENV=.venv-gcp .venv-gcp/.installed-test-gcp
	@.venv-gcp/bin/python -m pytest -rs $(NEED_GCP)

soak: $(VENV)/.installed-dev ## kill processes of MODES= at every moment, then KILLS=100 at random by SEED=, and examine every run
	@$(RUN_PY) tests.soak $(call given,STORAGE,storage) $(call given,MODES,modes) $(call given,KILLS,kills) \
		$(call given,SEED,seed) $(if $(MATRIX),$(if $(call on,MATRIX),,--nomatrix))

docs: $(VENV)/.installed-dev ## write docs/config.md from the models of the config, and the pages as a site in output/site
	@$(RUN_PY) pipeline.config.reference docs/config.md
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --quiet
	@echo 'the site is in output/site: open output/site/index.html'

lint: $(VENV)/.installed-dev ## formatting, lint and types
	@$(VENV)/bin/ruff format --check --quiet . || { echo "run: $(VENV)/bin/ruff format ." >&2; exit 1; }
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/mypy

bench: $(VENV)/.installed-bench ## figures, as a table and in STORAGE/bench.json; one with ONLY=
	@$(PY) -m benchmarks.main $(call given,STORAGE,storage) $(call given,ONLY,only)

bench-peers: $(VENV)/.installed-bench ## figures next to other libraries, in STORAGE/bench-peers.html; suites with ONLY=; installs gigabytes
	@$(PY) -m benchmarks.peers.main $(call given,STORAGE,storage) $(call given,ONLY,only)

lock: $(VENV)/.installed-dev ## write the lock files again from setup.py
	@$(VENV)/bin/uv pip compile setup.py --universal --python-version 3.10 --generate-hashes \
		--no-annotate --no-header --quiet --output-file requirements.lock >/dev/null
	@$(VENV)/bin/uv pip compile setup.py --extra dev --constraint requirements.lock --universal --python-version 3.10 \
		--generate-hashes --no-annotate --no-header --quiet --output-file requirements-dev.lock >/dev/null
	@$(VENV)/bin/uv pip compile setup.py --extra bench --constraint requirements.lock --universal --python-version 3.10 \
		--generate-hashes --no-annotate --no-header --quiet --output-file requirements-bench.lock >/dev/null
	@$(VENV)/bin/uv pip compile setup.py --extra tune --constraint requirements.lock --universal --python-version 3.10 \
		--generate-hashes --no-annotate --no-header --quiet --output-file requirements-tune.lock >/dev/null
	@# Beam's extra for Google Cloud takes an older google-cloud-storage; all else is as locked.
	@grep -E '^[a-z0-9._-]+==' requirements.lock | grep -v '^google-cloud-storage==' | sed 's/ *\\$$//' >$(VENV)/constraints
	@$(VENV)/bin/uv pip compile setup.py --extra gcp --constraint $(VENV)/constraints --universal --python-version 3.10 \
		--generate-hashes --no-annotate --no-header --quiet --output-file requirements-gcp.lock >/dev/null

clean: ## remove caches and .venv; what was written to STORAGE stays
	@rm -rf $(VENV) .venv-gcp *.egg-info .pytest_cache .mypy_cache .ruff_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
