"""What adapters of models behind HTTP share: clients per event loop, streams, addresses, failures, secrets."""
