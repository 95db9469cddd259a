"""Reads a worker's pieces, for tests of models with named tensors."""


def results_of(pieces):
    """By request: the outputs by name, or the error."""
    return [
        (p.failure.name, p.failure.message) if p.failure else {t.name: t.numpy().tolist() for t in p.outputs} for _, p in sorted(pieces, key=lambda one: one[0])
    ]
