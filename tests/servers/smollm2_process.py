"""Run as a program: llama.cpp's server with a model file on a free port, until the parent closes our stdin.

python smollm2_process.py WEIGHTS CONTEXT_TOKENS
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import xllamacpp


def main(weights: str, context_tokens: str) -> None:
    settings = xllamacpp.CommonParams()
    settings.model.path = weights
    settings.n_ctx = int(context_tokens)
    settings.n_parallel = 1
    settings.port = 0
    # More threads wait for one another by spinning: beside any other busy process they are slower than one by far.
    settings.cpuparams.n_threads = 1
    settings.cpuparams_batch.n_threads = 1
    # The template inside the file does not know tools.
    settings.use_jinja = True
    settings.chat_template = Path(__file__).with_name("smollm2_chat.jinja").read_text()
    server = xllamacpp.Server(settings)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # its threads never end by themselves


if __name__ == "__main__":
    main(*sys.argv[1:])
