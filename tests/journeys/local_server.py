"""A small model behind llama.cpp's own OpenAI-compatible server: prints its address, serves until its input ends.

python local_server.py WEIGHTS TEMPLATE
"""

import importlib
import sys
from pathlib import Path
from typing import Any


def serve(weights: str, template: str) -> None:
    llama: Any = importlib.import_module("xllamacpp")  # without stubs, and only here where this runs
    params = llama.CommonParams()
    params.model.path = weights
    params.model_alias = {"smollm2"}
    params.chat_template = Path(template).read_text("utf-8")
    params.use_jinja = True
    params.hostnames = ["127.0.0.1"]
    params.port = 0  # a free one
    params.n_ctx, params.n_parallel, params.n_predict = 4096, 1, 128
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two that spin on a busy machine are far slower
    params.sampling.temp = 0.0  # the same words every time
    params.warmup, params.verbosity = False, 1
    server = llama.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201  whoever started it reads that
    sys.stdin.read()


if __name__ == "__main__":
    serve(*sys.argv[1:])
